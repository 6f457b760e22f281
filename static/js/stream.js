// What a session's frames make of its pane. Only what changed is touched: selection, focus and
// what the reader opened stay.

export class Stream {
  #frames = [];
  #texts = new Map(); // streaming block → text that it does not show yet
  #scheduled = false;
  #isFirst = true;

  // `lost()` is called when this page does not have what a frame continues.
  constructor(pane, lost) {
    Object.assign(this, { pane, lost, list: pane.querySelector(`#t-${pane.dataset.session}`) });
    this.shown = Number(pane.dataset.seq);
  }

  get seq() {
    return Number(this.pane.dataset.seq);
  }

  receive(text) {
    this.#frames.push(text);
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (document.hidden) setTimeout(() => this.#drain(), 100);
    else requestAnimationFrame(() => this.#drain());
  }

  // Forget what is not applied yet: it comes again on a new connection.
  reset() {
    this.#frames = [];
  }

  #drain() {
    const end = performance.now() + 12;
    this.#scheduled = false;
    while (this.#frames.length && performance.now() < end) this.#apply(this.#frames.shift());
    this.#show();
    if (this.#frames.length) this.receive(this.#frames.pop());
  }

  // Put the text in that came since the last time, in one piece.
  #show() {
    for (const [box, text] of this.#texts) lastText(box).appendData(text);
    this.#texts.clear();
  }

  #apply(text) {
    for (const frame of [...fragment(text).children]) {
      const handler = HANDLERS[frame.dataset.frame];
      if (frame.dataset.frame !== "text") this.#show();
      if (handler) handler.call(this, frame, frame.dataset);
    }
  }

  hello(_, { seq, status }) {
    this.isFresh = this.#isFirst && Number(seq) === this.shown && status === this.pane.dataset.status;
    this.#isFirst = false;
  }

  items(frame, { seq, settles, known }) {
    const settled = new Set(settles.split(" "));
    for (const item of [...frame.querySelector("template").content.children]) {
      const shown = document.getElementById(item.id) ?? this.#takenPlace(item, settled);
      if (!shown && known) continue;
      if (shown) morph(shown, item);
      else this.#insert(item, this.#live()[0]);
      htmx.process(shown ?? item);
    }
    for (const live of this.#live()) {
      if (settled.has(live.dataset.live) || settled.has(live.dataset.turn)) this.#drop(live);
    }
    this.pane.querySelector(".scroll > .blank")?.remove();
    this.pane.dataset.seq = Math.max(this.seq, Number(seq));
  }

  block(frame, { block, keep, done }) {
    const box = this.#box(block) ?? this.#newBox(block, frame.querySelector("template[data-shell]"));
    if (!box || Number(keep) > Number(box.dataset.done ?? 0)) return this.lost();
    follow(box.children[Number(keep)] ?? null, frame.lastElementChild.content, box);
    box.dataset.done = done;
  }

  text(frame, { block }) {
    const box = this.#box(block);
    if (!box) return this.lost();
    this.#texts.set(box, (this.#texts.get(box) ?? "") + frame.textContent);
  }

  status(_, { status, turn, ended }) {
    if (!turn) for (const live of this.#live()) this.#drop(live);
    if (this.pane.dataset.status === status) return;
    this.pane.dataset.status = status;
    this.#say("status", { status, turn, ended });
  }

  queue(_, { count }) {
    if (!this.isFresh || this.pane.querySelectorAll(".queue > li").length !== Number(count)) this.#say("queue");
  }

  merges() {
    if (!this.isFresh) this.#say("merges");
    this.isFresh = false;
  }

  face() {
    this.#say("changed");
  }

  #say(name, detail = {}) {
    this.pane.dispatchEvent(new CustomEvent(`sidechat:${name}`, { bubbles: true, detail }));
  }

  #live() {
    return [...this.list.querySelectorAll(":scope > [data-live]")];
  }

  // As the page has them: each followed by a line break.
  #insert(item, before = null) {
    this.list.insertBefore(item, before);
    item.after("\n");
  }

  #drop(item) {
    if (item.nextSibling && isSpace(item.nextSibling)) item.nextSibling.remove();
    item.remove();
  }

  // The streamed step whose place this answer takes.
  #takenPlace(item, settled) {
    if (!item.matches(".answer")) return null;
    return this.#live().find((live) => settled.has(live.dataset.live) && live.dataset.turn === item.dataset.turn);
  }

  #box(block) {
    return this.list.querySelector(`[data-block="${block}"]`);
  }

  // A new block, in its place among those of its step.
  #newBox(block, shell) {
    if (!shell) return null;
    const [turn, step, index] = block.split(".");
    let live = this.list.querySelector(`:scope > [data-live="${turn}.${step}"]`);
    if (!live) {
      live = Object.assign(document.createElement("li"), { className: "item answer", id: `live-${turn}.${step}` });
      Object.assign(live.dataset, { seq: "", turn, live: `${turn}.${step}` });
      this.#insert(live);
    }
    const part = shell.content.firstElementChild;
    part.dataset.part = index;
    const next = [...live.children].find((other) => Number(other.dataset.part) > Number(index));
    live.insertBefore(part, next ?? null);
    return this.#box(block);
  }
}

const HANDLERS = Object.fromEntries(
  ["hello", "items", "block", "text", "status", "queue", "merges", "face"].map((name) => [name, Stream.prototype[name]]),
);

export function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

// Make `node` like `wanted`, keeping every node that can stay.
export function morph(node, wanted) {
  if (node.nodeType === Node.TEXT_NODE) return setText(node, wanted.data);
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && !(name === "open" && node.matches("details"))) node.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  follow(node.firstChild, wanted, node);
}

// Make the children of `parent` from `node` on like those of `wanted`.
function follow(node, wanted, parent) {
  for (const next of [...wanted.childNodes]) {
    while (node && isSpace(node) && !isSpace(next)) node = removed(node);
    if (node && isAlike(node, next)) {
      morph(node, next);
      node = node.nextSibling;
    } else {
      parent.insertBefore(next, node);
    }
  }
  while (node) node = removed(node);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function isSpace(node) {
  return node.nodeType === Node.TEXT_NODE && !node.data.trim() && node.parentElement?.closest("pre") === null;
}

function isAlike(node, next) {
  return node.nodeName === next.nodeName && isSpace(node) === isSpace(next);
}

function setText(node, data) {
  if (node.data === data) return;
  if (data.startsWith(node.data)) node.appendData(data.slice(node.length));
  else node.data = data;
}

// The last text of a block, where it goes on.
function lastText(box) {
  let node = box;
  while (true) {
    let last = node.lastChild;
    while (last && isSpace(last)) last = last.previousSibling;
    if (!last) return node.appendChild(document.createTextNode(""));
    if (last.nodeType === Node.TEXT_NODE) return last;
    node = last;
  }
}
