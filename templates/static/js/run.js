// The run page, live: its parts follow the run's events, its log follows the selected job's.
// An event only says that something is new; the parts are rendered by the hub, so that every sentence
// is made in one place.

import { fetchPage, swap } from "./live.js";
import { LogPanel } from "./log.js";

const PARTS = ["run-head", "run-jobs", "run-detail"];
const CALM_MS = 400; // at most one exchange of the parts in this time
const SHARE = 8; // and this many times what the last one took: one reader of a large run is not to keep the hub busy
const POLL_MS = 10000; // where the stream of events cannot be had
const NOISE = new Set(["log_bytes", "as_of", "memory_mib", "disk_mib"]); // changes that no part shows at once

const FRESH_MS = 15000; // bars grow and reasons are worked out anew while nothing else changes

const page = document.getElementById("run");
const section = document.getElementById("log");
const panel = section ? new LogPanel(section, openLog) : null;
let logSource = null;
let endedAttempt = -1; // whose log is over: not asked for again
let shape = null;
let due = null;
let busy = false;
let tookMs = 0;

function shapeOf(text) {
  return JSON.stringify(JSON.parse(text), (key, value) => (NOISE.has(key) ? undefined : value));
}

function exchangeSoon() {
  if (due !== null) return;
  due = setTimeout(exchange, Math.max(CALM_MS, SHARE * tookMs));
}

async function exchange() {
  due = null;
  if (busy) return exchangeSoon();
  busy = true;
  const begunMs = performance.now();
  try {
    const query = page.dataset.job ? `&job=${page.dataset.job}` : "";
    const fresh = await fetchPage(`/runs/${page.dataset.run}?fragment=jobs${query}`);
    tookMs = performance.now() - begunMs;
    if (!fresh) return;
    const title = fresh.querySelector("#run-head h1");
    if (!title) return;
    for (const id of PARTS) swap(document.getElementById(id), fresh.getElementById(id));
    followAttempt();
  } finally {
    busy = false;
  }
}

// A job that was queued again begins a new log; one that ended has all of its log.
function followAttempt() {
  const detail = document.getElementById("run-detail");
  if (!panel || !detail) return;
  const attempt = Number(detail.dataset.attempt);
  const restarted = attempt > panel.attempt;
  if (restarted) panel.restart(attempt);
  if (detail.dataset.final === "1") panel.finalNow();
  else if (restarted || (logSource === null && endedAttempt !== panel.attempt)) openLog();
}

function openLog() {
  logSource?.close();
  const source = new EventSource(`/api/v1/jobs/${panel.job}/events?after=${panel.attempt}:${panel.have}`);
  logSource = source;
  source.addEventListener("open", () => panel.say("live"));
  source.addEventListener("log", (event) => {
    const { attempt, offset, text } = JSON.parse(event.data);
    panel.feed(attempt, offset, text, Number(event.lastEventId.split(":")[1]));
  });
  source.addEventListener("end", () => {
    source.close();
    if (logSource === source) logSource = null;
    endedAttempt = panel.attempt;
    panel.say("");
    exchangeSoon();
  });
  source.addEventListener("error", () => {
    panel.say(source.readyState === EventSource.CLOSED ? "not live: reload the page" : "reconnecting…");
  });
}

function openRun() {
  const source = new EventSource(`/api/v1/runs/${page.dataset.run}/events`);
  let polling = null;
  source.addEventListener("run", (event) => {
    const now = shapeOf(event.data);
    if (now !== shape) exchangeSoon();
    shape = now;
  });
  const fresh = setInterval(() => document.hidden || exchangeSoon(), FRESH_MS);
  source.addEventListener("end", () => {
    source.close();
    clearInterval(polling);
    clearInterval(fresh);
    exchangeSoon();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) polling ??= setInterval(() => document.hidden || exchangeSoon(), POLL_MS);
  });
}

// In a list that scrolls, the job that is shown below stands in sight.
const list = document.querySelector("[data-scroll=jobs]");
const here = list?.querySelector("[aria-current]")?.parentElement;
if (here) list.scrollTop = here.offsetTop - list.offsetTop - list.clientHeight / 2;

if (page.dataset.final !== "1") {
  openRun();
  if (panel && section.dataset.final !== "1") openLog();
}
