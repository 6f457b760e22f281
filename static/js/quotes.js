// Quotes: what is selected in a transcript is collected above a composer, numbered, each with a comment if one is given.
// They are kept with the draft, and go out with the message.

const MOST = 4000; // characters that are kept of one; the server cuts what is longer, with a mark

const stored = (draft) => JSON.parse(localStorage.getItem(`quotes:${draft}`) || "[]");
const kept = (form) => stored(form.dataset.draft);

function store(draft, quotes) {
  if (quotes.length) localStorage.setItem(`quotes:${draft}`, JSON.stringify(quotes));
  else localStorage.removeItem(`quotes:${draft}`);
}

function keep(form, quotes) {
  store(form.dataset.draft, quotes);
  show(form);
}

const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

function card(form, quote, at, all) {
  const move = (to) => { const moved = [...all]; moved.splice(to, 0, ...moved.splice(at, 1)); keep(form, moved); };
  const act = (text, label, run, off = false) => {
    const button = make("button", { type: "button", className: "act", textContent: text, disabled: off, onclick: run });
    button.setAttribute("aria-label", `${label} quote ${at + 1}`);
    return button;
  };
  const comment = make("input", { type: "text", value: quote.comment || "", placeholder: "Comment, if you like", maxLength: 2000, className: "comment" });
  comment.setAttribute("aria-label", `Comment on quote ${at + 1}`);
  comment.addEventListener("input", () => {
    store(form.dataset.draft, kept(form).map((one, n) => (n === at ? { ...one, comment: comment.value } : one)));
    fill(form);
  });
  const said = [make("span", { className: "words", textContent: quote.text })];
  if ([...quote.text].length > MOST) said.push(make("span", { className: "figures", textContent: `long: only its first ${MOST.toLocaleString()} characters are sent` }));
  const acts = [
    act("↑", "Move up", () => move(at - 1), at === 0),
    act("↓", "Move down", () => move(at + 1), at === all.length - 1),
    act("Remove", "Remove", () => keep(form, all.filter((_, n) => n !== at))),
  ];
  return make("li", {}, make("div", { className: "said" }, ...said), comment, make("div", { className: "acts" }, ...acts));
}

// The hidden field with which they are sent.
function fill(form) {
  const field = form.querySelector("input[name=quotes]") ?? form.appendChild(make("input", { type: "hidden", name: "quotes" }));
  const quotes = kept(form);
  field.value = quotes.length ? JSON.stringify(quotes) : "";
  form.querySelector("textarea[name=text]").required = !quotes.length;
}

export function show(form) {
  const quotes = kept(form);
  form.querySelector(".quotes")?.remove();
  fill(form);
  if (!quotes.length) return;
  const list = make("ol", { className: "quotes" }, ...quotes.map((quote, at) => card(form, quote, at, quotes)));
  list.setAttribute("aria-label", "Quotes");
  form.querySelector(".box").before(list);
}

// What was sent is gone; quotes that were added meanwhile stay.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.matches?.("form.composer")) event.target.quoted = event.target.querySelector("input[name=quotes]")?.value || "[]";
});
document.addEventListener("sidechat:sent", (event) => {
  const form = event.target.closest?.("form.composer[data-draft]");
  if (!form) return;
  const sent = JSON.parse(form.quoted || "[]").length;
  keep(form, kept(form).slice(sent));
});

// Offered beside what is selected.
const offer = make("div", { className: "quote", hidden: true });
const aside = make("button", { type: "button", className: "btn", textContent: "Ask about this" });
const quoting = make("button", { type: "button", className: "btn", textContent: "Quote" });
offer.append(aside, quoting);
offer.setAttribute("role", "group");
offer.setAttribute("aria-label", "The selected text");
document.body.append(offer);

function selected() {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const from = selection.anchorNode?.parentElement?.closest(".transcript .item");
  const to = selection.focusNode?.parentElement?.closest(".transcript");
  const text = selection.toString().trim();
  return from && text && to === from.closest(".transcript") ? { item: from, text, rect: selection.getRangeAt(0).getBoundingClientRect() } : null;
}

function place() {
  const found = selected();
  offer.hidden = !found;
  if (!found) return;
  quoting.hidden = !found.item.closest(".pane").querySelector("form.composer[data-draft]");
  offer.style.left = `${Math.max(8, Math.min(found.rect.left, innerWidth - offer.offsetWidth - 8))}px`;
  offer.style.top = `${Math.max(8, found.rect.top - offer.offsetHeight - 8)}px`;
}

// The event that is quoted: of a text that still streams the last one before it.
function eventOf(item) {
  for (let at = item; at; at = at.previousElementSibling) if (at.dataset.seq) return Number(at.dataset.seq);
  return 0;
}

function quote({ item, text }) {
  return { session: item.closest(".pane").dataset.session, seq: eventOf(item), text };
}

function add(form, found) {
  keep(form, [...kept(form), quote(found)]);
  getSelection().removeAllRanges();
  offer.hidden = true;
  form.querySelector("textarea[name=text]").focus();
}

let placing;
document.addEventListener("selectionchange", () => { clearTimeout(placing); placing = setTimeout(place, 150); });
document.addEventListener("scroll", () => { offer.hidden = true; }, true);
offer.addEventListener("mousedown", (event) => event.preventDefault());
quoting.addEventListener("click", () => {
  const found = selected();
  if (found) add(found.item.closest(".pane").querySelector("form.composer[data-draft]"), found);
});
aside.addEventListener("click", () => {
  const found = selected();
  if (!found) return;
  const pane = found.item.closest(".pane");
  const open = document.querySelector("#side form.composer[data-draft]");
  if (open && pane.closest("#main")) return add(open, found);
  const draft = `${pane.dataset.session}:side`;
  store(draft, [...stored(draft), quote(found)]);
  getSelection().removeAllRanges();
  const settled = found.item.dataset.turn && found.item.closest(".transcript").querySelector(`.turn-end[data-turn="${found.item.dataset.turn}"]`);
  const address = `/s/${pane.dataset.session}/?draft=side${settled ? `&at=${settled.dataset.seq}` : ""}`;
  htmx.ajax("GET", address, { target: "#side", push: "true" });
});
place();
