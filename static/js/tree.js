// The list of sessions: which ones are shown, and moving in it by keyboard.

const rows = () => [...document.querySelectorAll("#rows a:is(.row, .hit)")];

function markCurrent() {
  const shown = new Set([...document.querySelectorAll(".pane[data-session]")].map((pane) => pane.dataset.session));
  for (const row of document.querySelectorAll("#rows a.row")) {
    if (shown.has(row.dataset.session)) row.setAttribute("aria-current", "page");
    else row.removeAttribute("aria-current");
  }
}

function move(from, step) {
  const all = rows();
  const next = all[all.indexOf(from) + step];
  if (next) next.focus();
  else if (step < 0) document.getElementById("search").focus();
}

document.addEventListener("keydown", (event) => {
  const row = event.target.closest?.("#rows a:is(.row, .hit)");
  const inSearch = event.target.id === "search";
  if (event.ctrlKey || event.metaKey || event.altKey || !(row || inSearch)) return;
  if (event.key === "ArrowDown") row ? move(row, 1) : rows()[0]?.focus();
  else if (event.key === "ArrowUp" && row) move(row, -1);
  else if (event.key === "F2" && row?.dataset.session) htmx.ajax("GET", `/s/${row.dataset.session}/settings`, { target: "#dialog" });
  else if (event.key === "Delete" && row?.dataset.session) htmx.ajax("GET", `/s/${row.dataset.session}/delete`, { target: "#dialog" });
  else return;
  event.preventDefault();
});

// Files that are dropped here are imported. What that needs is loaded when it is needed.
const tree = document.getElementById("tree");
const importing = () => import("./importing.js");
const dropsFiles = (event) => event.dataTransfer?.types.includes("Files");

tree?.addEventListener("dragover", (event) => {
  if (!dropsFiles(event)) return;
  event.preventDefault();
  tree.classList.add("dropping");
});
for (const name of ["dragleave", "drop"]) tree?.addEventListener(name, () => tree.classList.remove("dropping"));
tree?.addEventListener("drop", (event) => {
  if (!dropsFiles(event)) return;
  event.preventDefault();
  dropped(event.dataTransfer);
});
// The files are taken at once: after the event they cannot be asked for.
function dropped(transfer) {
  const items = [...transfer.items].map((item) => item.webkitGetAsEntry() ?? item.getAsFile()).filter(Boolean);
  importing().then(({ drop }) => drop(items));
}
document.addEventListener("htmx:load", (event) => {
  if (event.target.querySelector?.("form.importing")) importing();
});
if (document.querySelector("form.importing")) importing();

document.addEventListener("htmx:load", markCurrent);
document.addEventListener("htmx:historyRestore", markCurrent);
markCurrent();
