// The list of sessions: which ones are shown, and moving in it by keyboard.

const rows = () => [...document.querySelectorAll("#rows a.row")];

function markCurrent() {
  const shown = new Set([...document.querySelectorAll(".pane[data-session]")].map((pane) => pane.dataset.session));
  for (const row of rows()) {
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
  const row = event.target.closest?.("#rows a.row");
  const inSearch = event.target.id === "search";
  if (event.ctrlKey || event.metaKey || event.altKey || !(row || inSearch)) return;
  if (event.key === "ArrowDown") row ? move(row, 1) : rows()[0]?.focus();
  else if (event.key === "ArrowUp" && row) move(row, -1);
  else if (event.key === "F2" && row) htmx.ajax("GET", `/s/${row.dataset.session}/settings`, { target: "#dialog" });
  else if (event.key === "Delete" && row) htmx.ajax("GET", `/s/${row.dataset.session}/delete`, { target: "#dialog" });
  else return;
  event.preventDefault();
});

document.addEventListener("htmx:load", markCurrent);
document.addEventListener("htmx:historyRestore", markCurrent);
markCurrent();
