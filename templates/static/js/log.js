// The log panel: goes on where the server stopped, with its pen, offset and line number, and builds the
// same elements as templates/log.html; a test holds the two together. Bounded like the server's.

import { PLAIN, MAX_LINE, draw, penOf } from "./ansi.js";

export const MAX_LINES = 5000;
const SLACK_LINES = 500; // so that not every new line costs a removal
const BATCH_MS = 60; // one layout for all that came in this time
const MAX_RAW = 4 * MAX_LINE; // of a line that has not ended; what is beyond is never shown
const STEP = /^##\[step ([0-9]{1,4})\/([0-9]{1,4})\] ?(.*)$/s;
const EXIT = /^##\[exit (-?[0-9]{1,4})\] ?(.*)$/s;
const AT_END_PX = 40;
const CUT_BYTES = 4; // a character cut between two pieces comes whole with the second, whose offset is past it

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

export function lineElement(number, pieces) {
  const line = make("div", "l");
  const link = make("a");
  if (number !== null) {
    line.id = `L${number}`;
    link.href = `#L${number}`;
    link.dataset.n = number;
  }
  link.tabIndex = -1;
  link.setAttribute("aria-hidden", "true");
  const text = make("span");
  for (const piece of pieces) {
    text.append(piece.classes ? make("i", piece.classes, piece.text) : piece.text);
  }
  line.append(link, text);
  return line;
}

export class LogPanel {
  constructor(section) {
    const { job, attempt, offset, pen, next } = section.dataset;
    this.section = section;
    this.lines = section.querySelector(".lines");
    this.job = Number(job);
    this.attempt = Number(attempt);
    this.have = Number(offset); // bytes of this attempt's log that were taken
    this.pen = penOf(pen);
    this.number = next ? Number(next) : null;
    this.count = this.lines.querySelectorAll(".l").length;
    this.forgetLine();
    this.pending = "";
    this.timer = null;
    this.setUpFollowing(section.dataset.final === "1");
  }

  setUpFollowing(final) {
    this.follow = this.section.querySelector("#log-follow");
    if (final) this.follow.checked = false;
    else this.follow.closest("label").hidden = false;
    this.follow.addEventListener("change", () => this.scroll());
    this.lines.addEventListener("scroll", () => {
      const left = this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight;
      this.follow.checked = left < AT_END_PX;
    }, { passive: true });
    this.lines.addEventListener("click", (event) => {
      const fold = event.target.closest("summary")?.parentElement;
      if (fold) fold.dataset.touched = "1"; // the reader's own choice: not closed for them
    });
    const target = location.hash.startsWith("#L") && document.getElementById(location.hash.slice(1));
    if (target) {
      const fold = target.closest("details");
      if (fold) fold.open = true;
      this.follow.checked = false;
      target.scrollIntoView({ block: "center" });
    } else {
      this.scroll();
    }
  }

  // Text whose first byte stands at `offset` and which ends before byte `after` of the attempt's log.
  feed(attempt, offset, text, after) {
    if (attempt < this.attempt) return;
    if (attempt > this.attempt) this.restart(attempt);
    if (after <= this.have) return; // sent before, and again after a reconnection
    if (offset - this.have >= CUT_BYTES) this.showDropped();
    if (offset < this.have) text = new TextDecoder().decode(new TextEncoder().encode(text).slice(this.have - offset));
    this.have = after;
    this.pending += text;
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  restart(attempt) {
    clearTimeout(this.timer);
    this.timer = null;
    this.lines.replaceChildren();
    Object.assign(this, { attempt, have: 0, pen: PLAIN, number: 1, count: 0, pending: "" });
    this.forgetLine();
    this.section.dataset.attempt = attempt;
    this.section.querySelector(".dropped").hidden = true;
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    const parts = (this.raw + this.pending).split("\n");
    this.pending = "";
    this.raw = "";
    const last = parts.pop();
    if (parts.length) this.removePartial();
    for (const part of parts) {
      this.place(part);
      this.forgetLine();
    }
    this.raw = last;
    this.drawPartial();
    if (this.count) this.section.querySelector(".none")?.remove();
    this.trim();
    this.scroll();
  }

  finalNow() {
    this.flush();
    this.say("");
    this.follow.closest("label").hidden = true;
    this.section.dataset.final = "1";
  }

  forgetLine() {
    this.raw = "";
    this.kept = [];
    this.partial = null;
  }

  // One whole line: a marker, or a line of the fold or block that is open.
  place(raw) {
    const [pieces, after] = draw(raw, this.pen, this.kept);
    const plain = pieces.map((piece) => piece.text).join("");
    const number = this.number;
    if (this.number !== null) this.number += 1;
    const step = STEP.exec(plain);
    if (step) {
      this.openFold(step);
      this.pen = PLAIN;
      return;
    }
    const exit = EXIT.exec(plain);
    const fold = this.openStep();
    if (exit && fold) {
      this.closeFold(fold, Number(exit[1]), exit[2]);
      this.pen = PLAIN;
      return;
    }
    this.block().append(lineElement(number, pieces));
    this.count += 1;
    this.pen = after;
  }

  openStep() {
    const last = this.lines.lastElementChild;
    return last?.matches("details.fold") && last.dataset.exit === undefined ? last : null;
  }

  // Where the next line goes.
  block() {
    const last = this.lines.lastElementChild;
    const fold = this.openStep();
    if (fold) return fold.lastElementChild;
    if (last?.matches("div.block")) return last;
    this.closeDone();
    const block = make("div", "block");
    this.lines.append(block);
    return block;
  }

  openFold(step) {
    this.closeDone();
    const fold = make("details", "fold");
    fold.open = true;
    const summary = make("summary");
    const name = draw(step[3])[0].map((piece) => piece.text).join("");
    summary.append(make("span", "fold-step", `${Number(step[1])}/${Number(step[2])}`), make("span", "fold-name", name), make("span", "fold-end"));
    fold.append(summary, make("div", "block"));
    this.lines.append(fold);
  }

  closeFold(fold, code, took) {
    fold.dataset.exit = code;
    if (code) fold.classList.add("is-failed");
    const end = code ? `exit ${code}${took ? ", " : ""}${took}` : took;
    fold.querySelector(".fold-end").textContent = end;
  }

  // A step that succeeded is folded when something follows it.
  closeDone() {
    const last = this.lines.lastElementChild;
    if (last?.matches("details.fold") && last.dataset.exit === "0" && !last.dataset.touched) last.open = false;
  }

  // The line that has not ended yet, drawn anew as it grows.
  drawPartial() {
    const back = this.raw.lastIndexOf("\r");
    if (back > 0 && back < this.raw.length - 1) {
      [this.kept, this.pen] = draw(this.raw.slice(0, back), this.pen, this.kept);
      this.raw = this.raw.slice(back + 1);
    }
    if (this.raw.length > MAX_RAW) this.raw = this.raw.slice(0, MAX_RAW);
    this.removePartial();
    if (!this.raw) return;
    const [pieces] = draw(this.raw, this.pen, this.kept);
    this.partial = lineElement(this.number, pieces);
    this.block().append(this.partial);
  }

  // With the block that was made for it alone: the whole line may be a marker.
  removePartial() {
    const block = this.partial?.parentElement;
    this.partial?.remove();
    this.partial = null;
    if (block && !block.childElementCount && !block.closest("details")) block.remove();
  }

  trim() {
    if (this.count <= MAX_LINES + SLACK_LINES) return;
    for (const line of [...this.lines.querySelectorAll(".l")].slice(0, this.count - MAX_LINES)) {
      const block = line.parentElement;
      line.remove();
      this.count -= 1;
      if (block.childElementCount) continue;
      const whole = block.closest("details") ?? block;
      if (whole !== this.lines.lastElementChild) whole.remove();
    }
    this.showDropped();
  }

  showDropped() {
    this.section.querySelector(".dropped").hidden = false;
  }

  scroll() {
    if (this.follow.checked) this.lines.scrollTop = this.lines.scrollHeight;
  }

  say(text) {
    const live = this.section.querySelector(".live");
    live.textContent = text;
    live.classList.toggle("is-live", text === "live");
  }
}
