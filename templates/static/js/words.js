// What has elapsed, and ages, as words: the same as hub/web/words.py, which says why; a test holds the two together.

const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86400;
const MAX_AGE_S = 30 * DAY_S;

const two = (number) => String(number).padStart(2, "0");
const whole = (value, by) => Math.floor(value / by);

export function elapsed(spanMs) {
  const seconds = whole(Math.max(0, spanMs), 1000);
  if (seconds < MINUTE_S) return `${seconds} s`;
  if (seconds < HOUR_S) return `${whole(seconds, MINUTE_S)} min ${two(seconds % MINUTE_S)} s`;
  if (seconds < DAY_S) return `${whole(seconds, HOUR_S)} h ${two(whole(seconds % HOUR_S, MINUTE_S))} min`;
  return `${whole(seconds, DAY_S)} d ${whole(seconds % DAY_S, HOUR_S)} h`;
}

export function age(atMs, nowMs) {
  const seconds = whole(Math.max(0, nowMs - atMs), 1000);
  if (seconds < 5) return "just now";
  if (seconds < MINUTE_S) return `${seconds} s ago`;
  if (seconds < HOUR_S) return `${whole(seconds, MINUTE_S)} min ago`;
  if (seconds < DAY_S) return `${whole(seconds, HOUR_S)} h ago`;
  if (seconds < MAX_AGE_S) return `${whole(seconds, DAY_S)} d ago`;
  return new Date(atMs).toISOString().slice(0, 10);
}
