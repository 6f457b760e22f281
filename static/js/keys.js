// Keys, and the list of them. None is one that browsers use for themselves.

const KEYS = [
  ["Enter", "Send; while a turn runs, queue"],
  ["Shift Enter", "New line"],
  ["Ctrl Enter", "Send into the running turn"],
  ["↑", "In an empty box: edit the last queued message"],
  ["Ctrl /", "From main to side and back; opens the side"],
  ["Esc", "Close an empty side panel"],
  ["Ctrl K", "Go to a session, or do something by its name"],
  ["↑ ↓", "In the list of sessions: move"],
  ["F2", "In the list of sessions: rename and settings"],
  ["/", "In a message: commands – ↑ ↓ choose, Tab or Enter takes"],
  ["/btw …", "Ask on the side, also while a turn runs"],
  ["?", "This list"],
];

const typing = (element) => element.matches?.("input, textarea, select, [contenteditable]");
const composer = (place) => document.querySelector(`#${place} .composer textarea`);

export function showKeys() {
  const dialog = document.getElementById("dialog");
  const list = KEYS.map(([key, does]) => `<dt><kbd>${key}</kbd></dt><dd>${does}</dd>`).join("");
  dialog.innerHTML = `<article class="sheet"><header><h2>Keys</h2><button class="btn ghost close" data-close aria-label="Close" autofocus>×</button></header><dl class="keys">${list}</dl></article>`;
  dialog.setAttribute("aria-label", "Keys");
  dialog.showModal();
}

function toggle() {
  const side = composer("side");
  if (!side) document.querySelector("#main a.ask")?.click();
  else (document.activeElement.closest("#side") ? composer("main") : side)?.focus();
}

// The panel is empty while nothing was asked in it and nothing is written.
function closeEmptyPanel() {
  const draft = document.querySelector("#side .pane.draft");
  if (!draft || draft.querySelector("textarea").value.trim()) return false;
  draft.querySelector("a.close").click();
  composer("main")?.focus();
  return true;
}

// The palette is there by the time that the second key of Ctrl K is pressed.
document.addEventListener("keydown", (event) => {
  if (event.key === "Control" || event.key === "Meta") import("./palette.js");
});

document.addEventListener("keydown", (event) => {
  const ctrl = event.ctrlKey || event.metaKey;
  if (document.querySelector("dialog[open]") || event.isComposing || event.altKey) return;
  if (ctrl && event.key === "/") toggle();
  else if (ctrl && event.key.toLowerCase() === "k" && !event.shiftKey) import("./palette.js").then(({ open }) => open());
  else if (event.key === "Escape" && closeEmptyPanel()) event.stopPropagation();
  else if (event.key === "?" && !typing(event.target)) showKeys();
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-keys]")) showKeys();
});
