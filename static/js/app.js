// One socket for each pane on screen, opened and closed with it; one for the tree.

import { Scroll } from "./scroll.js";
import { Socket } from "./socket.js";
import { Stream, fragment } from "./stream.js";

const WORDS = {
  connecting: "connecting …",
  live: "live",
  reconnecting: "reconnecting …",
  offline: "offline – what is shown may be old",
  closed: "closed – this session was deleted, or you are signed out",
};
const BLIP = 800; // ms; a shorter cut is not worth a word

const shown = new Map(); // pane → what serves it

function address(path) {
  return `${location.origin.replace(/^http/, "ws")}${path}`;
}

class Pane {
  constructor(pane) {
    this.pane = pane;
    this.word = Object.assign(document.createElement("p"), { className: "connection", textContent: WORDS.connecting });
    this.word.setAttribute("role", "status");
    (pane.querySelector(".foot .status") ?? pane.lastElementChild).after(this.word);
    this.stream = new Stream(pane, () => this.#restart());
    this.scroll = new Scroll(pane);
    const path = () => address(`/ws/sessions/${pane.dataset.session}/?after=${this.stream.seq}`);
    this.socket = new Socket(path, (text) => this.#receive(text), (state) => this.#tell(state));
  }

  close() {
    clearTimeout(this.saying);
    this.socket.close();
    this.scroll.close();
  }

  #receive(text) {
    const [, kind, code] = /^<div data-frame="(\w+)"(?: data-code="(\w+)")?/.exec(text) ?? [];
    if (kind === "hello") this.#tell("live");
    if (kind === "bye") this.socket.dismissed(code);
    else if (kind === "gap") this.#reload();
    else this.stream.receive(text);
  }

  #restart() {
    this.stream.reset();
    this.socket.restart();
  }

  // Too much was missed to be told piece by piece.
  #reload() {
    htmx.ajax("GET", location.href, { target: "#panes", swap: "innerHTML" });
  }

  #tell(state) {
    if (state !== "live") this.stream.reset();
    this.pane.dataset.connection = state;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => { this.word.textContent = WORDS[state]; }, state === "live" ? 0 : BLIP);
  }
}

function sync() {
  for (const [pane, served] of shown) {
    if (!pane.isConnected) {
      served.close();
      shown.delete(pane);
    }
  }
  for (const pane of document.querySelectorAll(".pane[data-session]")) {
    if (!shown.has(pane)) shown.set(pane, new Pane(pane));
  }
}

for (const event of ["htmx:load", "htmx:afterSwap", "htmx:historyRestore"]) document.addEventListener(event, sync);

// The tree: told when a row changed in a way that it shows, or when something may have been missed.
const rows = new Map();
let greeted = false;

function changed(frame) {
  if (frame.dataset.frame === "hello") {
    const missed = greeted;
    greeted = true;
    return missed;
  }
  const { session, updated, ...said } = frame.dataset;
  const now = JSON.stringify(said);
  const before = rows.get(session);
  rows.set(session, now);
  return now !== before;
}

if (document.getElementById("tree")) {
  const tree = new Socket(
    () => address("/ws/tree/"),
    (text) => {
      const frame = fragment(text).firstElementChild;
      if (frame.dataset.frame === "hello") document.getElementById("tree").dataset.connection = "live";
      if (frame.dataset.frame === "bye") tree.dismissed(frame.dataset.code);
      if (frame.dataset.session) import("./attention.js").then(({ noticed }) => noticed(frame.dataset));
      if (frame.dataset.frame !== "bye" && changed(frame)) document.body.dispatchEvent(new CustomEvent("sidechat:tree", { detail: { ...frame.dataset } }));
    },
    (state) => { document.getElementById("tree").dataset.connection = state; },
  );
}

const notifications = document.querySelector("[data-notify]");
if (notifications) import("./attention.js").then(({ settle }) => settle(notifications));

sync();
