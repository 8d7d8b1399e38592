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

// Make `old` what `fresh` is; true where something changed. Elements that stay what they are stay the same
// elements: what scrolls stays where it is scrolled to, and three hundred rows cost what changed in them.
export function swap(old, fresh) {
  if (!old || !fresh || old.isEqualNode(fresh) || isSelected(old)) return false;
  const kept = new Map([...old.querySelectorAll("details[data-keep]")].map((each) => [each.dataset.keep, each.open]));
  for (const each of fresh.querySelectorAll("details[data-keep]")) {
    if (kept.has(each.dataset.keep)) each.open = kept.get(each.dataset.keep);
  }
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const key = focused && keyOf(focused);
  liken(old, fresh);
  if (focused && !focused.isConnected) {
    [...old.querySelectorAll(CONTROLS)].find((each) => keyOf(each) === key)?.focus({ preventScroll: true });
  }
  return true;
}

function liken(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(document.importNode(fresh, true));
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
  } else {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
    after.forEach((child, index) => {
      if (before[index]) liken(before[index], child);
      else old.append(document.importNode(child, true));
    });
    for (const child of before.slice(after.length)) child.remove();
  }
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
