// The log panel: goes on where the server stopped, with its pen, offset and line number. A log of which
// the page has only the end is fetched whole when the reader asks for it, searches, or follows a link to
// one of its lines. Nothing here takes the browser for longer than a SLICE_MS at a time.

import { PLAIN, MAX_LINE, draw } from "./ansi.js";
import { Lines, MAX_CHARACTERS, lineElement } from "./lines.js";
import { Search } from "./search.js";

const BATCH_MS = 60; // one layout for all that came in this time
const SLICE_MS = 12; // of work before the browser may draw: under one frame
const SLICE_BYTES = 2 ** 16; // decoded and parted at once: a millisecond or so
const MAX_RAW = 4 * MAX_LINE; // of a line that has not ended; what is beyond is never shown
const AT_END_PX = 40;
const CUT_BYTES = 4; // a character cut between two pieces comes whole with the second, whose offset is past it
const MIB = 2 ** 20;

const pause = () => new Promise((go) => setTimeout(go, 0));

export class LogPanel {
  // `reopen`: asks for the log's stream from `have` on.
  constructor(section, reopen) {
    const { job, attempt, offset, pen, next, total } = section.dataset;
    this.section = section;
    this.reopen = reopen;
    this.job = Number(job);
    this.attempt = Number(attempt);
    this.have = Number(offset); // bytes of this attempt's log that were taken
    this.total = Number(total);
    this.lines = new Lines(section.querySelector(".lines"), pen, next ? Number(next) : null);
    this.forgetLine();
    this.pending = "";
    this.waiting = []; // whole lines that were not placed yet, the next one last
    this.timer = null;
    this.loading = null;
    this.ending = false;
    this.search = new Search(this);
    this.setUpFollowing(section.dataset.final === "1");
    this.setUpLoading();
    window.addEventListener("hashchange", () => this.goToHash());
    window.addEventListener("beforeprint", () => this.lines.showAll());
    this.goToHash();
  }

  get isFinal() {
    return this.section.dataset.final === "1";
  }

  setUpFollowing(final) {
    this.follow = this.section.querySelector("#log-follow");
    if (final) this.follow.checked = false;
    else this.follow.closest("label").hidden = false;
    this.follow.addEventListener("change", () => this.scroll());
    this.watch();
    if (!location.hash.startsWith("#L")) this.scroll();
  }

  // The reader scrolls up: they are not taken to the end again. They come to the end: they are.
  watch() {
    const box = this.lines.element;
    let top = box.scrollTop;
    box.addEventListener("scroll", () => {
      const left = box.scrollHeight - box.scrollTop - box.clientHeight;
      if (left < AT_END_PX) this.follow.checked = !this.isFinal;
      else if (box.scrollTop < top) this.follow.checked = false;
      top = box.scrollTop;
    }, { passive: true });
    this.lines.onShow = (block) => {
      this.search.mark(block);
      this.scroll();
    };
    this.lines.onHide = (block) => this.search.unmark(block);
  }

  setUpLoading() {
    this.whole = this.section.querySelector(".load-whole");
    this.whole.hidden = !this.canLoad;
    this.whole.addEventListener("click", () => this.loadWhole());
  }

  get isDropped() {
    return !this.section.querySelector(".dropped").hidden;
  }

  get canLoad() {
    return this.isDropped && !this.lines.dropped && this.total <= MAX_CHARACTERS;
  }

  async goToHash() {
    const number = /^#L([1-9][0-9]{0,8})$/.exec(location.hash)?.[1];
    if (!number) return;
    this.follow.checked = false;
    if (!this.lines.goTo(Number(number)) && this.canLoad && (await this.loadWhole())) this.lines.goTo(Number(number));
  }

  // -- what comes ---------------------------------------------------------------------------------

  // Text whose first byte stands at `offset` and which ends before byte `after` of the attempt's log.
  feed(attempt, offset, text, after) {
    if (attempt < this.attempt) return;
    if (attempt > this.attempt) this.restart(attempt);
    if (after <= this.have || this.loading) return; // sent before, or sent again when the whole is there
    if (offset - this.have >= CUT_BYTES) this.showDropped();
    if (offset < this.have) text = new TextDecoder().decode(new TextEncoder().encode(text).slice(this.have - offset));
    this.have = after;
    this.total = Math.max(this.total, after);
    this.pending += text;
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  restart(attempt) {
    clearTimeout(this.timer);
    this.timer = null;
    this.loading?.abort();
    this.lines.end();
    this.lines.element.replaceChildren();
    this.lines = new Lines(this.lines.element, "", 1);
    this.watch();
    Object.assign(this, { attempt, have: 0, total: 0, pending: "", waiting: [], loading: null, ending: false });
    this.forgetLine();
    this.search.again();
    this.section.dataset.attempt = attempt;
    this.section.querySelector(".dropped").hidden = true;
  }

  // Place what came, for a slice of time; the rest goes on when the browser has drawn.
  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.pending) {
      const parts = (this.raw + this.pending).split("\n");
      this.pending = "";
      this.raw = parts.pop();
      if (parts.length) {
        // the line that had begun ends with the first of these, and goes on from what was kept of it
        this.removePartial();
        if (this.waiting.length) this.waiting = parts.reverse().concat(this.waiting);
        else this.waiting = parts.reverse();
      }
    }
    const until = performance.now() + SLICE_MS;
    while (this.waiting.length && performance.now() < until) this.placeSome();
    if (this.waiting.length) this.timer = setTimeout(() => this.flush(), 0);
    else if (this.ending) this.endLine();
    else this.drawPartial();
    this.lines.settle();
    if (this.lines.dropped) this.showDropped();
    if (this.lines.count) this.section.querySelector(".none")?.remove();
    this.scroll();
  }

  placeSome() {
    for (let left = 50; left && this.waiting.length; left -= 1) {
      this.lines.place(this.waiting.pop(), this.kept, this.cut);
      this.kept = [];
      this.cut = false;
    }
  }

  // Nothing more will come: what came is placed, the last line too where it has no newline.
  finalNow() {
    this.ending = true;
    this.flush();
    this.say("");
    this.follow.closest("label").hidden = true;
    this.section.dataset.final = "1";
  }

  endLine() {
    this.removePartial();
    if (this.raw) this.lines.place(this.raw, this.kept, this.cut);
    this.forgetLine();
  }

  forgetLine() {
    this.raw = ""; // of the line that has not ended
    this.kept = []; // what its earlier part showed
    this.cut = false; // that part is not in `raw` any more
    this.partial = null;
  }

  // The line that has not ended yet, drawn anew as it grows.
  drawPartial() {
    const back = this.raw.lastIndexOf("\r");
    if (back > 0 && back < this.raw.length - 1) {
      [this.kept, this.lines.pen] = draw(this.raw.slice(0, back), this.lines.pen, this.kept);
      this.raw = this.raw.slice(back + 1);
      this.cut = true;
    }
    if (this.raw.length > MAX_RAW) this.raw = this.raw.slice(0, MAX_RAW);
    this.removePartial();
    if (!this.raw) return;
    const [pieces] = draw(this.raw, this.lines.pen, this.kept);
    this.partial = lineElement(this.lines.number, pieces);
    this.lines.element.append(this.partial);
  }

  removePartial() {
    this.partial?.remove();
    this.partial = null;
  }

  // -- the whole log ------------------------------------------------------------------------------

  // Fetch the log from its beginning and show it in the place of its end; false where it cannot be had.
  async loadWhole() {
    if (this.loading) return false;
    const control = new AbortController();
    const final = this.isFinal;
    this.loading = control;
    this.whole.hidden = true;
    try {
      const answer = await fetch(`/jobs/${this.job}/log`, { credentials: "same-origin", signal: control.signal });
      if (!answer.ok || answer.redirected) return false;
      const box = this.lines.element.cloneNode(false);
      const lines = new Lines(box, "", 1, false);
      const got = await this.take(answer.body.getReader(), lines, final);
      this.exchange(lines, got);
      return true;
    } catch {
      return false; // the hub is away, or another attempt began
    } finally {
      if (this.loading === control) this.loading = null;
      if (!control.signal.aborted) {
        this.say("");
        this.whole.hidden = !this.canLoad;
        if (!final) this.reopen();
      }
    }
  }

  // Bytes that were read and are placed: up to the last newline, and to the end of a log that is final.
  async take(reader, lines, final) {
    const decoder = new TextDecoder();
    let [bytes, ended, rest, until] = [0, 0, "", performance.now() + SLICE_MS];
    for (;;) {
      const { done, value } = await reader.read();
      if (value) {
        const newline = value.lastIndexOf(10);
        if (newline >= 0) ended = bytes + newline + 1;
        bytes += value.length;
      }
      for (let at = 0; at < (value?.length ?? 0) || done; at += SLICE_BYTES) {
        const piece = value?.subarray(at, at + SLICE_BYTES);
        const parts = (rest + decoder.decode(piece, { stream: !done })).split("\n");
        rest = parts.pop();
        for (const part of parts) {
          lines.place(part);
          if (performance.now() < until) continue;
          this.say(`loading, ${(bytes / MIB).toFixed(1)} MiB`);
          await pause();
          until = performance.now() + SLICE_MS;
        }
        if (done) break;
      }
      if (done) break;
    }
    if (final && rest) lines.place(rest);
    return final ? bytes : ended;
  }

  exchange(lines, got) {
    const box = this.lines.element;
    const fromEnd = box.scrollHeight - box.scrollTop;
    this.removePartial();
    this.lines.end();
    lines.settle();
    lines.inSight = true;
    this.lines = lines;
    Object.assign(this, { have: got, pending: "", waiting: [] });
    this.forgetLine();
    box.replaceWith(lines.element);
    this.watch();
    lines.element.scrollTop = lines.element.scrollHeight - fromEnd;
    this.section.querySelector(".dropped").hidden = !lines.dropped;
  }

  // -- what is said -------------------------------------------------------------------------------

  showDropped() {
    this.section.querySelector(".dropped").hidden = false;
    this.whole.hidden = !this.canLoad;
  }

  scroll() {
    if (this.follow.checked) this.lines.element.scrollTop = this.lines.element.scrollHeight;
  }

  say(text) {
    const live = this.section.querySelector(".live");
    live.textContent = text;
    live.classList.toggle("is-live", text === "live");
  }
}
