// What pages do beside streaming: dialogs, copying, and saying what went wrong.

import { fragment, morph } from "./stream.js";

const dialog = document.getElementById("dialog");
document.documentElement.classList.add("scripted");

// Dialogs: filled by htmx, shown when filled, closed when done.
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target !== dialog) return;
  dialog.setAttribute("aria-label", dialog.querySelector("h2")?.textContent || "Dialog");
  if (dialog.querySelector(".sheet") && !dialog.open) dialog.showModal();
});
document.addEventListener("click", (event) => {
  if (event.target === dialog || (dialog.open && event.target.closest("[data-close]"))) {
    event.preventDefault();
    dialog.close();
  }
});
document.addEventListener("sidechat:close", () => dialog.close());
dialog.addEventListener("close", () => dialog.replaceChildren());

// What stands beside the transcripts is fetched again when something rang: one request at a time for each part.
const deriving = new WeakMap(); // element → whether something rang meanwhile

async function derive(element) {
  if (deriving.has(element)) return deriving.set(element, true);
  do {
    deriving.set(element, false);
    const address = new URL(element.dataset.derive, location.origin);
    if (element.dataset.into) address.searchParams.set("q", document.getElementById("search").value);
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true" } });
      const html = await answer.text();
      if (answer.ok && element.isConnected) show(element, html);
    } catch {
      // The page is being left, or there is no connection: the sockets say so, and ring when it is back.
    }
  } while (deriving.get(element));
  deriving.delete(element);
}
// A part that is alike stays, so that a click that has begun ends where it began.
function show(element, html) {
  if (element.shown === html) return;
  element.shown = html;
  if (element.dataset.into) return htmx.swap(element.dataset.into, html, { swapStyle: "innerHTML" });
  for (const part of [...fragment(html).children]) {
    const shown = document.getElementById(part.id);
    if (!shown) continue;
    morph(shown, part);
    htmx.process(shown);
  }
}
function rang(event) {
  const pane = event.target.closest?.(".pane");
  for (const element of document.querySelectorAll("[data-derive]")) {
    const isTree = Boolean(element.dataset.into);
    const near = event.type === "sidechat:tree" ? isTree : !isTree && (pane?.contains(element) || (pane?.closest("#main") && element.closest("#side")));
    if (near || event.type === "sidechat:changed") derive(element);
  }
}
for (const name of ["status", "queue", "merges", "changed", "tree"]) document.body.addEventListener(`sidechat:${name}`, rang);

// Copying.
async function copy(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(await text);
    button.classList.add("done");
    button.textContent = "Copied";
  } catch {
    toast("The browser did not allow copying. Select the text and copy it by hand.");
  }
  setTimeout(() => { button.classList.remove("done"); button.textContent = label; }, 1500);
}
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from], [data-copy-link], [data-copy-value]");
  if (!button || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  if (button.matches("[data-copy]")) copy(button, button.closest("figure").querySelector("pre").textContent);
  else if (button.matches("[data-copy-link]")) copy(button, linkTo(button));
  else if (button.matches("[data-copy-value]")) copy(button, document.getElementById(button.dataset.copyValue).value);
  else copy(button, fetch(button.href).then((answer) => answer.ok ? answer.text() : Promise.reject(answer.status)));
});

// The address of an item, under that of the pane in which it stands.
function linkTo(link) {
  const pane = link.closest(".pane");
  return new URL(`${pane.dataset.url || location.pathname}${new URL(link.href).hash}`, location.origin).href;
}

// Asking about a selection: what that needs is loaded with the first one.
document.addEventListener("selectionchange", () => {
  if (!getSelection().isCollapsed && getSelection().anchorNode?.parentElement?.closest(".transcript")) import("./quotes.js");
});

// Links to a message. One whose session is on the page leaves everything else as it is.
function follow() {
  if (/^#([a-z0-9]{26}-)?e\d+$/.test(location.hash)) import("./links.js").then(({ find }) => find());
}
addEventListener("hashchange", follow);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-event]");
  if (!link || event.ctrlKey || event.metaKey || !document.querySelector(`.pane[data-session="${link.dataset.event}"]`)) return;
  event.preventDefault();
  if (location.hash === new URL(link.href).hash) follow();
  else location.hash = new URL(link.href).hash;
});
follow();

// The length of a note against what is left for it.
document.addEventListener("input", (event) => {
  const most = Number(event.target.dataset?.most);
  const count = most && document.querySelector(`[data-count="${event.target.id}"]`);
  if (!count) return;
  const length = [...event.target.value].length;
  count.firstElementChild.textContent = length;
  count.classList.toggle("over", length > most);
});

// What went wrong, where the user looks: at the composer that sent, or at the foot of the page.
export function toast(text, bad = true) {
  const line = Object.assign(document.createElement("p"), { className: bad ? "toast bad" : "toast", textContent: text });
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), 8000);
}
function failed(event, text) {
  const place = event.target.closest?.("form.composer, .mergebar, .sheet form")?.querySelector(".refusal");
  if (place) place.textContent = text;
  else toast(text);
}
document.addEventListener("htmx:sendError", (event) => failed(event, "The server did not answer. Nothing was lost; try again."));
document.addEventListener("htmx:timeout", (event) => failed(event, "The server took too long to answer. Nothing was lost; try again."));
document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  failed(event, status === 404 ? "This is no longer here. It may have been deleted." : `The server could not do this (error ${status}). Nothing was lost.`);
});

// Older turns come in above without moving what is read. The swap follows in the same task.
document.addEventListener("htmx:beforeSwap", (event) => {
  const scroll = event.detail.target.matches?.("li.older") && event.detail.target.closest(".scroll");
  if (!scroll) return;
  const below = scroll.scrollHeight - scroll.scrollTop;
  queueMicrotask(() => { scroll.scrollTop = scroll.scrollHeight - below; });
});

// Times in the browser's own zone.
customElements.define("local-time", class extends HTMLElement {
  connectedCallback() {
    const at = new Date(this.parentElement.dateTime);
    if (!isNaN(at)) this.textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  }
});
