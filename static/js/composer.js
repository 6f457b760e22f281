// Composers: they grow, keep a draft for each session, and send with Enter.
// A text leaves the box only when the server has accepted it.

const name = (form) => `draft:${form.dataset.draft}`;
const box = (form) => form.querySelector("textarea[name=text]");
const waiting = new Map(); // form → timer of a draft that is not stored yet

function append(form, text) {
  const area = box(form);
  area.value = area.value.trim() ? `${area.value.trimEnd()}\n\n${text}` : text;
  changed(form);
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}

function store(form) {
  clearTimeout(waiting.get(form));
  waiting.delete(form);
  const text = box(form).value;
  if (text) localStorage.setItem(name(form), text);
  else localStorage.removeItem(name(form));
}

function changed(form) {
  clearTimeout(waiting.get(form));
  waiting.set(form, setTimeout(store, 200, form));
  grow(box(form));
}

function storeAll() {
  for (const form of [...waiting.keys()]) store(form);
}

function grow(area) {
  if (CSS.supports("field-sizing", "content")) return;
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

function restore(root) {
  for (const form of root.querySelectorAll("form.composer[data-draft]")) {
    const area = box(form);
    if (!area.value) area.value = localStorage.getItem(name(form)) || "";
    grow(area);
    if (localStorage.getItem(`quotes:${form.dataset.draft}`)) import("./quotes.js").then(({ show }) => show(form));
    announce(form.closest(".pane"));
  }
}

function announce(pane) {
  const area = pane?.querySelector(".composer textarea[data-idle]");
  if (area) area.placeholder = ["running", "waiting"].includes(pane.dataset.status) ? area.dataset.running : area.dataset.idle;
}

export function send(form, steer) {
  form.querySelector("input[name=mode]")?.remove();
  if (steer) {
    const mode = Object.assign(document.createElement("input"), { type: "hidden", name: "mode", value: "steer" });
    form.append(mode);
  }
  form.requestSubmit();
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form.composer[data-draft]");
  if (!form) return;
  changed(form);
  if (event.target.value.startsWith("/")) import("./slash.js").then(({ offer }) => offer(event.target));
});

document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.("form.composer");
  if (!form || event.target.tagName !== "TEXTAREA" || event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    if (event.target.value.trim() || form.querySelector(".quotes")) send(form, event.ctrlKey || event.metaKey);
  } else if (event.key === "ArrowUp" && !event.target.value) {
    const last = [...form.closest(".pane").querySelectorAll(".queue a")].at(-1);
    if (last) event.preventDefault();
    last?.click();
  }
});

// What was sent is remembered, so that what is typed meanwhile stays.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.matches?.("form.composer")) event.target.sent = box(event.target).value;
});

document.addEventListener("sidechat:sent", (event) => {
  const form = event.target.closest?.("form.composer");
  if (!form) return;
  const area = box(form);
  if (area.value.startsWith(form.sent ?? "")) area.value = area.value.slice((form.sent ?? "").length);
  form.querySelector("input[name=key]").value = event.detail.key;
  form.querySelector("input[name=mode]")?.remove();
  form.querySelector(".refusal").textContent = "";
  store(form);
  grow(area);
});

document.addEventListener("sidechat:returned", (event) => {
  const form = document.getElementById(`composer-${event.detail.session}`);
  if (form) append(form, event.detail.text);
});

document.addEventListener("sidechat:status", (event) => announce(event.target.closest(".pane")));
document.addEventListener("htmx:beforeSwap", storeAll);
document.addEventListener("htmx:load", (event) => restore(event.target));
addEventListener("pagehide", storeAll);
restore(document);
