// The lines of a log in blocks, of which only those near the reader's eyes are elements of the page: a
// block that is out of sight is one spacer of its height. So two hundred thousand lines cost what a few
// screens of them do. Builds the same elements as templates/macros.html; a test holds the two together.

import { PLAIN, draw, penOf } from "./ansi.js";

export const BLOCK_LINES = 200; // some two screens: built in a few milliseconds, and few enough blocks
export const MAX_LINES = 1_000_000; // held: browsers draw no element higher than 33 million pixels
const PRINT_LINES = 20_000; // built for paper: some three hundred sheets
export const MAX_CHARACTERS = 64 * 2 ** 20; // held: what a tab may take for one log
const NEAR = "800px 0px"; // built so far before they come into sight
const STEP = /^##\[step ([0-9]{1,4})\/([0-9]{1,4})\] ?(.*)$/s;
const EXIT = /^##\[exit (-?[0-9]{1,4})\] ?(.*)$/s;
const STEERS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/; // what makes a line's plain text differ from the line
const SVG = "http://www.w3.org/2000/svg";
const LINE_PX = 19.375; // until a line was measured

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// An element of a height without a style: attributes of an SVG are no styles to the security policy.
function spacer(height) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "space");
  svg.setAttribute("width", "1");
  svg.setAttribute("height", String(Math.round(height)));
  return svg;
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

// What a line says, without what steers a terminal.
export function plainOf(raw) {
  if (typeof raw !== "string") return raw.text;
  return STEERS.test(raw) ? draw(raw)[0].map((piece) => piece.text).join("") : raw;
}

// Lines that stand together in one fold, or outside of all. `raws` null: made by the server, and kept as
// the elements that they are.
class Block {
  constructor(element, first, pen) {
    Object.assign(this, { element, first, pen, raws: [], shown: false, height: 0, characters: 0 });
    element.block = this;
  }

  get length() {
    return this.raws ? this.raws.length : this.element.childElementCount;
  }

  get texts() {
    return this.raws ? this.raws.map(plainOf) : [...this.element.children].map((line) => line.lastElementChild.textContent);
  }
}

export class Lines {
  // `element`: the box that scrolls, with what the server put in it. `pen`, `number`: of the next line.
  // `inSight` false: it is filled before it is put on the page.
  constructor(element, pen, number, inSight = true) {
    this.element = element;
    this.inSight = inSight;
    this.stale = []; // blocks out of sight whose height changed
    this.pen = penOf(pen);
    this.number = number;
    this.blocks = [];
    this.count = 0;
    this.characters = 0;
    this.dropped = false; // lines were given up at the front
    this.target = null; // the number of the line that is pointed out
    this.linePx = LINE_PX;
    this.onShow = () => {};
    this.onHide = () => {};
    this.observer = new IntersectionObserver((entries) => this.see(entries), { root: element, rootMargin: NEAR });
    for (const each of element.querySelectorAll(".block")) {
      const block = new Block(each, Number(each.querySelector("[data-n]")?.dataset.n) || null, PLAIN);
      Object.assign(block, { raws: null, shown: true });
      this.blocks.push(block);
      this.count += block.length;
    }
    element.addEventListener("click", (event) => {
      const fold = event.target.closest("summary")?.parentElement;
      if (fold) fold.dataset.touched = "1"; // the reader's own choice: not closed for them
    });
  }

  // -- what stands there --------------------------------------------------------------------------

  // One whole line: a marker, or a line of the fold or block that is open. `kept`: what an earlier part of
  // it showed; `cut`: that part is not in `raw`.
  place(raw, kept = [], cut = false) {
    const number = this.number;
    if (this.number !== null) this.number += 1;
    let pieces = null;
    let after = this.pen;
    let plain = raw;
    if (cut || kept.length || raw.startsWith("##[") || STEERS.test(raw)) {
      [pieces, after] = draw(raw, this.pen, kept);
      plain = pieces.map((piece) => piece.text).join("");
    }
    if (plain.startsWith("##[")) {
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
    }
    this.add(cut ? { pieces, after, text: plain } : raw, number, pieces);
    this.pen = after;
  }

  add(raw, number, pieces) {
    const block = this.blockFor(number);
    if (!block.length) block.first = number;
    if (block.raws === null) {
      block.element.append(lineElement(number, pieces ?? draw(raw, this.pen)[0]));
    } else {
      block.raws.push(raw);
      const size = raw.text?.length ?? raw.length;
      block.characters += size;
      this.characters += size;
      if (block.shown) block.element.append(this.marked(lineElement(number, pieces ?? draw(raw, this.pen)[0])));
      else if (this.stale.at(-1) !== block) this.stale.push(block);
    }
    this.count += 1;
  }

  // The height of what was added out of sight; and no more lines than are to be held.
  settle() {
    for (const block of this.stale.splice(0)) this.putSpacer(block);
    while (this.blocks.length > 1 && (this.count > MAX_LINES || this.characters > MAX_CHARACTERS)) this.giveUp();
  }

  giveUp() {
    const block = this.blocks.shift();
    this.count -= block.length;
    this.characters -= block.characters;
    this.observer.unobserve(block.element);
    const fold = block.element.closest("details");
    block.element.remove();
    if (fold && !fold.querySelector(".block") && fold !== this.element.lastElementChild) fold.remove();
    this.dropped = true;
  }

  openStep() {
    const last = this.element.lastElementChild;
    return last?.matches("details.fold") && last.dataset.exit === undefined ? last : null;
  }

  // Where the next line goes.
  blockFor(number) {
    const fold = this.openStep();
    const last = this.element.lastElementChild;
    if (!fold && !last?.matches("div.block")) this.closeDone();
    const block = (fold ? fold.lastElementChild : last)?.block;
    if (block && block.length < BLOCK_LINES) return block;
    const made = new Block(make("div", "block"), number, this.pen);
    made.shown = this.inSight && (block ? block.shown : true); // goes on in sight where the one before is in sight
    (fold ?? this.element).append(made.element);
    this.blocks.push(made);
    this.observer.observe(made.element);
    return made;
  }

  openFold(step) {
    this.closeDone();
    const fold = make("details", "fold");
    fold.open = true;
    const summary = make("summary");
    const name = draw(step[3])[0].map((piece) => piece.text).join("");
    summary.append(make("span", "fold-step", `${Number(step[1])}/${Number(step[2])}`), make("span", "fold-name", name), make("span", "fold-end"));
    fold.append(summary);
    this.element.append(fold);
  }

  closeFold(fold, code, took) {
    fold.dataset.exit = code;
    if (code) fold.classList.add("is-failed");
    const end = code ? `exit ${code}${took ? ", " : ""}${took}` : took;
    fold.querySelector(".fold-end").textContent = end;
  }

  // A step that succeeded is folded when something follows it.
  closeDone() {
    const last = this.element.lastElementChild;
    if (last?.matches("details.fold") && last.dataset.exit === "0" && !last.dataset.touched) last.open = false;
  }

  // -- what is in sight ---------------------------------------------------------------------------

  see(entries) {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      if (isIntersecting) this.show(target.block);
      else if (target.block.shown) this.hide(target.block, boundingClientRect.height);
    }
  }

  show(block) {
    if (block.shown) return;
    let pen = block.pen;
    const built = block.raws.map((raw, index) => {
      const [pieces, after] = typeof raw === "string" ? draw(raw, pen) : [raw.pieces, raw.after];
      pen = after;
      return this.marked(lineElement(block.first === null ? null : block.first + index, pieces));
    });
    block.element.replaceChildren(...built);
    block.shown = true;
    this.onShow(block);
  }

  hide(block, height) {
    if (!block.raws?.length) return;
    if (height > 0) {
      block.height = height;
      this.linePx = Math.min(200, height / block.length);
    }
    this.onHide(block);
    block.shown = false;
    this.putSpacer(block);
  }

  putSpacer(block) {
    if (block.raws?.length && !block.shown) {
      const measured = block.height && block.length === BLOCK_LINES ? block.height : block.length * this.linePx;
      block.element.replaceChildren(spacer(measured));
    }
  }

  // For paper, where nothing comes into sight later: the last lines, as many as make sense there.
  showAll() {
    let left = PRINT_LINES;
    for (const block of [...this.blocks].reverse()) {
      if ((left -= block.length) < 0) break;
      this.show(block);
    }
  }

  // -- one line -----------------------------------------------------------------------------------

  // Bring a line into sight; false where it is not held.
  goTo(number) {
    const block = this.blocks.find((each) => each.first !== null && each.first <= number && number < each.first + each.length);
    if (!block) return false;
    this.reveal(block, number - block.first);
    this.point(number);
    return true;
  }

  reveal(block, index) {
    const fold = block.element.closest("details");
    if (fold) fold.open = true;
    this.show(block);
    const line = block.element.children[index];
    line.scrollIntoView({ block: "center" });
    return line;
  }

  point(number) {
    for (const each of this.element.querySelectorAll(".is-target")) each.classList.remove("is-target");
    this.target = number;
    document.getElementById(`L${number}`)?.classList.add("is-target");
  }

  marked(line) {
    if (this.target !== null && line.id === `L${this.target}`) line.classList.add("is-target");
    return line;
  }

  end() {
    this.observer.disconnect();
  }
}
