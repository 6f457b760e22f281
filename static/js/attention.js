// Says that a session needs its user, or ended while they looked elsewhere: in the title, the icon, and, where
// they asked for it, by a notification of the browser.

const WANTED = "notify"; // in localStorage: "1" where notifications were asked for
const ENDED = { completed: "has finished", error: "failed" };
const BADGE = encodeURIComponent('<circle cx="15" cy="5" r="5" fill="#c2410c" stroke="none"/>');

const before = new Map(); // session → its status in the last frame
const due = new Map(); // session → why
const icon = document.querySelector("link[rel=icon]");
const plain = icon?.href;

const isSeen = (session) => !document.hidden && document.querySelector(`.pane[data-session="${session}"]`);

function why({ session, status, unread, ended }) {
  const was = before.get(session);
  before.set(session, status);
  if (status === "waiting" && was !== "waiting") return "needs you";
  if (status === "idle" && (was ? was !== "idle" : unread)) return ENDED[ended] ?? "has stopped";
  return "";
}

function mark() {
  for (const session of due.keys()) if (isSeen(session)) due.delete(session);
  const title = document.title.replace(/^\(\d+\) /, "");
  const wanted = due.size ? `(${due.size}) ${title}` : title;
  if (document.title !== wanted) document.title = wanted;
  if (icon) icon.href = due.size ? plain.replace("%3C/svg%3E", `${BADGE}%3C/svg%3E`) : plain;
}

function notify({ session, title }, reason) {
  if (!document.hidden || localStorage.getItem(WANTED) !== "1" || Notification.permission !== "granted") return;
  const shown = new Notification(title || "A session", { body: reason, tag: session });
  shown.onclick = () => {
    window.focus();
    shown.close();
    htmx.ajax("GET", `/s/${session}/`, { target: "#panes", push: "true" });
  };
}

// A row of the tree changed.
export function noticed(row) {
  const reason = row.frame === "row" ? why(row) : "";
  if (row.frame === "gone" || row.status === "running") due.delete(row.session);
  if (reason && !isSeen(row.session)) {
    due.set(row.session, reason);
    notify(row, reason);
  }
  mark();
}

// The setting: the browser is asked only when it is switched on.
export function settle(box) {
  const allowed = () => Notification.permission === "granted";
  const said = box.closest("section").querySelector("[role=status]");
  box.checked = localStorage.getItem(WANTED) === "1" && allowed();
  box.addEventListener("change", async () => {
    if (box.checked && !allowed()) await Notification.requestPermission();
    if (box.checked && !allowed()) said.textContent = "The browser does not allow it. Its settings for this site say why.";
    box.checked &&= allowed();
    localStorage.setItem(WANTED, box.checked ? "1" : "");
  });
}

for (const event of ["visibilitychange", "htmx:load", "htmx:historyRestore"]) document.addEventListener(event, mark);
