// The command palette: sessions, as the server finds them, and what can be done on this page.

import { fragment } from "./stream.js";

const MOST_SESSIONS = 12;
const PAUSE = 120; // ms without a key before the server is asked

// What an action presses; it is offered where that stands on the page.
const ACTIONS = [
  ["New session", ".brand a.btn"],
  ["Ask on the side", "#main a.ask"],
  ["Stop the main session", "#main .pane .stop"],
  ["Stop the side", "#side .pane .stop"],
  ["Review the side’s note before it is merged", "#side .mergebar button:not(.primary)"],
  ["Merge the side back", "#side .mergebar button.primary"],
  ["Rename, change the model, export: settings of the main session", "#main a.more"],
  ["Settings of the side", "#side a.more"],
  ["Close the side panel", "#side a.close"],
];

const dialog = document.getElementById("dialog");
let sessions = [];
let asked; // the request under way
let timer;

const input = () => document.getElementById("palette");
const list = () => document.getElementById("palette-list");
const chosen = () => list().querySelector("[aria-selected=true]");
const matches = (text, words) => words.every((word) => text.toLowerCase().includes(word));

function actions() {
  const standing = ACTIONS.map(([name, selector]) => ({ name, on: document.querySelector(selector) }));
  const links = [...document.querySelectorAll("#tree .below a")].map((on) => ({ name: on.textContent, on }));
  const keys = { name: "Keys", on: document.querySelector("[data-keys]") };
  return [...standing, ...links, keys].filter(({ on }) => on && !on.disabled && (on.closest("#tree") || on.checkVisibility()));
}

function option({ name, said, run }, index) {
  const line = Object.assign(document.createElement("li"), { id: `palette-${index}` });
  line.setAttribute("role", "option");
  line.setAttribute("aria-selected", "false");
  line.append(Object.assign(document.createElement("b"), { textContent: name }), Object.assign(document.createElement("span"), { textContent: said }));
  line.run = run;
  return line;
}

function choose(line) {
  for (const one of list().children) one.setAttribute("aria-selected", String(one === line));
  if (line) input().setAttribute("aria-activedescendant", line.id);
  else input().removeAttribute("aria-activedescendant");
  line?.scrollIntoView({ block: "nearest" });
}

function show() {
  const words = input().value.toLowerCase().split(/\s+/).filter(Boolean);
  const doable = actions().filter(({ name }) => matches(name, words));
  const found = [
    ...sessions.map(({ name, said, href }) => ({ name, said, run: () => go(href) })),
    ...doable.map(({ name, on }) => ({ name, said: "action", run: () => on.click() })),
  ];
  list().replaceChildren(...found.map(option));
  choose(list().firstElementChild);
  dialog.querySelector(".found").textContent = found.length ? `${found.length} found` : "Nothing found";
}

function go(href) {
  htmx.ajax("GET", href, { target: "#panes", push: "true" });
}

async function ask() {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  try {
    const answer = await fetch(`/sessions/?q=${encodeURIComponent(input().value)}`, { headers: { "HX-Request": "true" }, signal });
    const rows = [...fragment(await answer.text()).querySelectorAll("a.row")].slice(0, MOST_SESSIONS);
    if (signal.aborted || !input()) return;
    sessions = rows.map((row) => ({ name: row.querySelector("b").textContent, said: row.querySelector(".said").textContent, href: row.getAttribute("href") }));
    show();
  } catch {
    // Another key was pressed, or there is no connection: the list says what is known.
  }
}

function typed() {
  sessions = sessions.filter(({ name }) => matches(name, input().value.toLowerCase().split(/\s+/).filter(Boolean)));
  show();
  clearTimeout(timer);
  timer = setTimeout(() => input() && ask(), PAUSE);
}

function run(line) {
  dialog.close();
  line?.run();
}

function pressed(event) {
  const lines = [...list().children];
  const at = lines.indexOf(chosen());
  if (event.isComposing) return;
  if (event.key === "ArrowDown") choose(lines[(at + 1) % lines.length]);
  else if (event.key === "ArrowUp") choose(lines.at(at - 1));
  else if (event.key === "Enter") run(chosen());
  else return;
  event.preventDefault();
}

export function open() {
  dialog.innerHTML = `<article class="sheet palette"><h2 class="unseen">Go to</h2>
    <input id="palette" type="text" role="combobox" aria-expanded="true" aria-autocomplete="list" aria-controls="palette-list" aria-label="Session or action" placeholder="Session or action" autocomplete="off" spellcheck="false" autofocus>
    <ul id="palette-list" role="listbox" aria-label="Sessions and actions" tabindex="-1"></ul><p class="found hint" role="status"></p></article>`;
  dialog.setAttribute("aria-label", "Go to");
  sessions = [];
  dialog.showModal();
  input().addEventListener("input", typed);
  input().addEventListener("keydown", pressed);
  list().addEventListener("click", (event) => run(event.target.closest("[role=option]")));
  show();
  ask();
}
