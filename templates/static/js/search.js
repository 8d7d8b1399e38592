// Search in a log: through all of its lines, those that are out of sight too, a slice of time after the
// other. What is found is marked by ranges, which change no element of the page.

const WAIT_MS = 180; // for the next letter
const SLICE_MS = 12;
const MAX_HITS = 10_000; // lines: who finds more looks for something else
const MAX_TEXT = 200; // characters looked for

const pause = () => new Promise((go) => setTimeout(go, 0));
const canMark = typeof Highlight === "function" && "highlights" in CSS;

export class Search {
  constructor(panel) {
    this.panel = panel;
    this.form = panel.section.querySelector(".search");
    this.input = this.form.querySelector("input");
    this.said = this.form.querySelector(".search-said");
    this.text = "";
    this.hits = []; // [block, index of the line in it], in order
    this.at = -1;
    this.round = 0; // of searching: another one ends those before
    this.ranges = new Map(); // by block
    this.timer = null;
    if (canMark) CSS.highlights.set("found", (this.found = new Highlight()));
    this.form.hidden = false;
    this.input.maxLength = MAX_TEXT;
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.begin(), WAIT_MS);
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    for (const [name, by] of [["previous", -1], ["next", 1]]) {
      this.form.querySelector(`[name=${name}]`).addEventListener("click", () => this.step(by));
    }
  }

  key(event) {
    if (event.key === "Escape") {
      this.input.value = "";
      this.begin();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.input.value.toLowerCase() !== this.text) this.begin();
      else this.step(event.shiftKey ? -1 : 1);
    }
  }

  // Look for what stands in the field, through the whole log where it can be had.
  async begin() {
    clearTimeout(this.timer);
    const round = (this.round += 1);
    this.text = this.input.value.toLowerCase();
    this.forget();
    if (!this.text) return this.say("");
    this.say("searching…");
    if (this.panel.canLoad) await this.panel.loadWhole();
    if (round !== this.round) return;
    const finished = await this.look(round);
    if (!finished) return;
    for (const block of this.panel.lines.blocks) if (block.shown) this.mark(block);
    if (this.hits.length) this.step(1);
    else this.say("not found");
  }

  async look(round) {
    let until = performance.now() + SLICE_MS;
    for (const block of this.panel.lines.blocks) {
      for (const [index, text] of block.texts.entries()) {
        if (this.hits.length < MAX_HITS && text.toLowerCase().includes(this.text)) this.hits.push([block, index]);
      }
      if (performance.now() < until) continue;
      await pause();
      if (round !== this.round) return false;
      until = performance.now() + SLICE_MS;
    }
    return true;
  }

  // The lines changed altogether: what was found is nowhere.
  again() {
    this.round += 1;
    this.forget();
    this.say("");
    this.text = "";
  }

  forget() {
    this.hits = [];
    this.at = -1;
    this.ranges.clear();
    this.found?.clear();
    this.here?.classList.remove("is-found");
  }

  step(by) {
    if (!this.hits.length) return;
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    this.panel.follow.checked = false;
    const [block, index] = this.hits[this.at];
    this.here?.classList.remove("is-found");
    this.here = this.panel.lines.reveal(block, index);
    this.here.classList.add("is-found");
    const all = this.hits.length === MAX_HITS ? `${MAX_HITS} and more` : this.hits.length;
    this.say(`${this.at + 1} of ${all} ${this.hits.length === 1 ? "line" : "lines"}`);
  }

  say(text) {
    this.said.textContent = text;
  }

  // Mark what is found in a block that is in sight.
  mark(block) {
    if (!canMark || !this.text || this.ranges.has(block)) return;
    const ranges = [];
    for (const line of block.element.children) {
      const span = line.lastElementChild;
      const text = span?.textContent.toLowerCase() ?? "";
      for (let at = text.indexOf(this.text); at >= 0; at = text.indexOf(this.text, at + this.text.length)) {
        const range = rangeOf(span, at, at + this.text.length);
        if (range) ranges.push(range);
      }
    }
    this.ranges.set(block, ranges);
    for (const range of ranges) this.found.add(range);
  }

  unmark(block) {
    for (const range of this.ranges.get(block) ?? []) this.found.delete(range);
    this.ranges.delete(block);
  }
}

// From character `start` to `end` of an element's text; null where a letter's small form is longer than it.
function rangeOf(element, start, end) {
  const range = document.createRange();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let begun = false;
  for (let at = 0, node = walker.nextNode(); node; at += node.data.length, node = walker.nextNode()) {
    if (!begun && start < at + node.data.length) {
      range.setStart(node, start - at);
      begun = true;
    }
    if (begun && end <= at + node.data.length) {
      range.setEnd(node, end - at);
      return range;
    }
  }
  return null;
}
