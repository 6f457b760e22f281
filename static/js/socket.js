// A WebSocket that stays: after every cut it comes back, from where it was.

const FIRST_WAIT = 250; // ms
const LONGEST_WAIT = 10_000;
const NAP = 20_000; // a longer pause of the page's timers means that the machine slept
const FINAL = new Set(["deleted", "forbidden"]);

const open = new Set();

export class Socket {
  #socket = null;
  #timer = 0;
  #failures = 0;
  #final = false;

  // `address()` is asked at each attempt; `receive(text)` gets frames; `tell(state)` hears
  // "connecting", "live", "reconnecting", "offline" or "closed".
  constructor(address, receive, tell) {
    Object.assign(this, { address, receive, tell });
    open.add(this);
    tell("connecting");
    this.#connect();
  }

  // Drop the connection and come back at once.
  restart() {
    if (this.#final) return;
    this.#leave();
    this.#connect();
  }

  close() {
    this.#final = true;
    this.#leave();
    open.delete(this);
  }

  // The server said good-bye.
  dismissed(code) {
    if (!FINAL.has(code)) return;
    this.close();
    this.tell("closed");
  }

  #connect() {
    const socket = new WebSocket(this.address());
    this.#socket = socket;
    socket.onmessage = (event) => {
      if (socket !== this.#socket) return;
      this.#failures = 0;
      this.receive(event.data);
    };
    socket.onclose = () => socket === this.#socket && this.#again();
  }

  #again() {
    this.#socket = null;
    this.tell(navigator.onLine ? "reconnecting" : "offline");
    const most = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#failures++);
    this.#timer = setTimeout(() => this.#connect(), most * (0.5 + Math.random() / 2));
  }

  #leave() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  get isWaiting() {
    return !this.#socket;
  }
}

// What waits for its next attempt does not wait longer than the network.
function wake(all) {
  for (const socket of [...open]) if (all || socket.isWaiting) socket.restart();
}

addEventListener("online", () => wake(true));
addEventListener("offline", () => { for (const socket of open) socket.tell("offline"); });
addEventListener("pageshow", (event) => event.persisted && wake(true));
document.addEventListener("visibilitychange", () => document.hidden || wake(false));

let ticked = Date.now();
setInterval(() => {
  if (Date.now() - ticked > NAP) wake(true);
  ticked = Date.now();
}, 5_000);
