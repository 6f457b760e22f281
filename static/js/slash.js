// Completion of slash commands: a list above the composer while the first word is being written.

import { send } from "./composer.js";

let area = null; // the textarea whose list is open

const list = (of) => document.getElementById(of.getAttribute("aria-controls"));
const options = () => [...list(area).children].filter((option) => !option.hidden);
const current = () => document.getElementById(area.getAttribute("aria-activedescendant"));

function choose(option) {
  for (const one of list(area).children) one.setAttribute("aria-selected", String(one === option));
  area.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

function close() {
  if (!area) return;
  list(area).hidden = true;
  area.removeAttribute("aria-activedescendant");
  area = null;
}

// Show what begins like the word that is written; nothing once a text follows it.
export function offer(on) {
  const word = /^\/(\S*)$/.exec(on.value)?.[1].toLowerCase();
  if (area !== on) close();
  if (word === undefined || on !== document.activeElement || !list(on)) return close();
  area = on;
  for (const option of list(on).children) option.hidden = !option.dataset.name.startsWith(word);
  const found = options();
  if (!found.length) return close();
  list(on).hidden = false;
  choose(found.includes(current()) ? current() : found[0]);
}

function write(option) {
  const on = area;
  on.value = `/${option.dataset.name}${option.dataset.text === "none" ? "" : " "}`;
  on.dispatchEvent(new Event("input", { bubbles: true }));
  on.focus();
  on.setSelectionRange(on.value.length, on.value.length);
  close();
}

// A command that needs nothing more is done; any other waits for its text.
function take(option) {
  const on = area;
  const isWhole = on.value.toLowerCase() === `/${option.dataset.name}` && option.dataset.text !== "required";
  if (!isWhole) write(option);
  close();
  if (isWhole || option.dataset.text === "none") send(on.form, false);
}

function step(by) {
  const found = options();
  choose(found[(found.indexOf(current()) + by + found.length) % found.length]);
}

document.addEventListener("keydown", (event) => {
  if (!area || event.target !== area || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (event.key === "ArrowDown") step(1);
  else if (event.key === "ArrowUp") step(-1);
  else if (event.key === "Enter") take(current());
  else if (event.key === "Tab") write(current());
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopPropagation();
}, true);

document.addEventListener("input", (event) => { if (event.target === area) offer(area); });
document.addEventListener("focusout", (event) => { if (event.target === area) close(); });
document.addEventListener("mousedown", (event) => {
  const option = event.target.closest?.(".commands [role=option]");
  if (!option || !area) return;
  event.preventDefault();
  take(option);
});
