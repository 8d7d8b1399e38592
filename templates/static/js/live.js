// Parts of a page exchanged for newer ones from the hub. What the reader has open, focused or selected
// stays as it is: a part with a selection in it is left until the next time.

const CONTROLS = "a[href], button, input, select, summary, [tabindex]";

// The parsed page behind `address`; null where it cannot be had. Signing in again reloads this page.
export async function fetchPage(address) {
  let answer;
  try {
    answer = await fetch(address, { headers: { accept: "text/html" }, credentials: "same-origin" });
  } catch {
    return null; // the hub is away; the next round asks again
  }
  if (answer.redirected && new URL(answer.url).pathname === "/login") {
    location.reload();
    return null;
  }
  if (!answer.ok) return null;
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Put `fresh` in the place of `old`; true where something was exchanged.
export function swap(old, fresh) {
  if (!old || !fresh || old.isEqualNode(fresh) || isSelected(old)) return false;
  const kept = new Map([...old.querySelectorAll("details[data-keep]")].map((each) => [each.dataset.keep, each.open]));
  for (const each of fresh.querySelectorAll("details[data-keep]")) {
    if (kept.has(each.dataset.keep)) each.open = kept.get(each.dataset.keep);
  }
  const focused = old.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const taken = document.importNode(fresh, true);
  old.replaceWith(taken);
  if (focused) {
    [...taken.querySelectorAll(CONTROLS)].find((each) => keyOf(each) === focused)?.focus({ preventScroll: true });
  }
  return true;
}

export function refreshList(id, everyMs) {
  setInterval(async () => {
    if (document.hidden) return;
    const page = await fetchPage(location.href);
    if (page) swap(document.getElementById(id), page.getElementById(id));
  }, everyMs);
}

function keyOf(element) {
  return [element.tagName, element.getAttribute("href") ?? element.form?.getAttribute("action") ?? "", element.textContent.trim()].join(" ");
}

function isSelected(element) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && element.contains(selection.anchorNode);
}
