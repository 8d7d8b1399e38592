// Every page: times that tick, lists that stay fresh, and the run page's live part where there is one.
// The page is whole without this; nothing here makes a sentence.

import { refreshList } from "./live.js";
import { age, elapsed } from "./words.js";

const TICK_MS = 1000;

// The hub's clock, as far as it differs from this machine's.
const aheadMs = Number(document.documentElement.dataset.now) - Date.now();

export function tick() {
  const nowMs = Date.now() + aheadMs;
  for (const element of document.querySelectorAll("time[data-tick]")) {
    const atMs = Date.parse(element.dateTime);
    const text = element.dataset.tick === "age" ? age(atMs, nowMs) : elapsed(nowMs - atMs);
    if (element.textContent !== text) element.textContent = text;
  }
}

setInterval(() => document.hidden || tick(), TICK_MS);
document.addEventListener("visibilitychange", () => document.hidden || tick());

const list = document.querySelector("[data-refresh]");
if (list) refreshList(list.id, Number(list.dataset.refresh) * 1000);
if (document.getElementById("run")) import("./run.js");
