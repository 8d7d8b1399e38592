// A log line's colours as class names: the same rules as hub/web/ansi.py, which explains them; a test
// feeds both. Text only ever reaches the page as text nodes, and class names only from the closed set.

export const MAX_LINE = 10000;
export const PLAIN = Object.freeze({ marks: "", letters: null, ground: null });

const BIDI = /[\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const ESCAPE = /\x1b\[([0-?]*)[ -/]*([@-~])?|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?/g;
const ATTRIBUTES = { 1: "b", 2: "d", 3: "i", 4: "u", 7: "v", 9: "s" };
const ENDS = { 21: "b", 22: "bd", 23: "i", 24: "u", 27: "v", 29: "s" };
const ORDER = "bdiusv";

export function classesOf(pen) {
  const names = [...pen.marks];
  if (pen.letters !== null) names.push(`f${pen.letters}`);
  if (pen.ground !== null) names.push(`k${pen.ground}`);
  return names.join(" ");
}

// The pen behind class names, as the server tells it in an attribute.
export function penOf(classes) {
  const names = classes.split(" ").filter(Boolean);
  const colour = (letter) => {
    const name = names.find((each) => each[0] === letter && each.length > 1);
    return name === undefined ? null : Number(name.slice(1));
  };
  return { marks: names.filter((name) => name.length === 1).join(""), letters: colour("f"), ground: colour("k") };
}

// [pieces, pen]: the pieces ({classes, text}) of one line, and the pen that the next line begins with.
// `before`: what an earlier part of the line showed, that stays where this part shows nothing.
export function draw(line, pen = PLAIN, before = []) {
  let kept = before;
  for (const part of line.split("\r")) {
    const [pieces, after] = drawPart(part, pen);
    pen = after;
    if (pieces.length) kept = pieces;
  }
  return [kept, pen];
}

function drawPart(part, pen) {
  const runs = [];
  let cut = false;
  if (part.length > MAX_LINE) {
    const points = Array.from(part); // counted in code points, as the server does
    cut = points.length > MAX_LINE;
    if (cut) part = points.slice(0, MAX_LINE).join("");
  }
  let at = 0;
  for (const found of part.matchAll(ESCAPE)) {
    add(runs, pen, part.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[2] === "m") pen = turn(pen, found[1]);
  }
  add(runs, pen, part.slice(at));
  if (cut) runs.push({ classes: "cut", text: " … the line is longer; the raw log has all of it" });
  return [runs, pen];
}

function add(runs, pen, raw) {
  const text = raw.replace(CONTROL, "").replace(BIDI, "\ufffd");
  if (!text) return;
  const classes = classesOf(pen);
  const last = runs.at(-1);
  if (last && last.classes === classes) last.text += text;
  else runs.push({ classes, text });
}

function turn(pen, parameters) {
  if ("<=>?".includes(parameters[0] ?? " ")) return pen;
  const groups = parameters.split(";");
  let at = 0;
  while (at < groups.length) {
    const fields = groups[at].split(":");
    const code = number(fields[0]);
    at += 1;
    if (code === 38 || code === 48) {
      let picked;
      if (fields.length > 1) {
        picked = colour(withoutSpace(fields.slice(1)).map(number));
      } else {
        const rest = groups.slice(at, at + 4).map(number);
        picked = colour(rest);
        if (rest.length) at += { 5: 2, 2: 4 }[rest[0]] ?? 1;
      }
      if (picked !== null) pen = code === 38 ? { ...pen, letters: picked } : { ...pen, ground: picked };
    } else if (code === 4 && fields.length > 1) {
      pen = mark(pen, "u", number(fields[1]) !== 0);
    } else {
      pen = simple(pen, code);
    }
  }
  return pen;
}

function simple(pen, code) {
  if (code === 0) return PLAIN;
  if (code in ATTRIBUTES) return mark(pen, ATTRIBUTES[code], true);
  if (code in ENDS) return mark(pen, ENDS[code], false);
  if (code >= 30 && code <= 37) return { ...pen, letters: code - 30 };
  if (code >= 90 && code <= 97) return { ...pen, letters: code - 82 };
  if (code === 39) return { ...pen, letters: null };
  if (code >= 40 && code <= 47) return { ...pen, ground: code - 40 };
  if (code >= 100 && code <= 107) return { ...pen, ground: code - 92 };
  if (code === 49) return { ...pen, ground: null };
  return pen;
}

function mark(pen, marks, on) {
  const wanted = new Set(pen.marks);
  for (const each of marks) on ? wanted.add(each) : wanted.delete(each);
  return { ...pen, marks: [...ORDER].filter((each) => wanted.has(each)).join("") };
}

function number(text) {
  if (!text) return 0;
  return /^[0-9]{1,3}$/.test(text) ? Number(text) : -1;
}

function withoutSpace(fields) {
  return fields[0] === "2" && fields.length > 4 ? [fields[0], ...fields.slice(2)] : fields;
}

function colour(rest) {
  const inRange = (value) => value >= 0 && value <= 255;
  if (rest.length >= 2 && rest[0] === 5 && inRange(rest[1])) return indexed(rest[1]);
  if (rest.length >= 4 && rest[0] === 2 && rest.slice(1, 4).every(inRange)) return nearest(rest[1], rest[2], rest[3]);
  return null;
}

function indexed(index) {
  if (index < 16) return index;
  if (index >= 232) {
    const grey = 8 + 10 * (index - 232);
    return nearest(grey, grey, grey);
  }
  const level = (value) => (value === 0 ? 0 : 55 + 40 * value);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearest(red, green, blue) {
  const low = Math.min(red, green, blue);
  const high = Math.max(red, green, blue);
  if (high - low < 48) return high < 64 ? 0 : high < 144 ? 8 : high < 224 ? 7 : 15;
  const middle = Math.floor((low + high) / 2);
  const bits = (red > middle) + 2 * (green > middle) + 4 * (blue > middle);
  return high >= 192 ? bits + 8 : bits;
}
