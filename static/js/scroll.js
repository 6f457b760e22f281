// Following the end of a conversation, until the reader looks elsewhere.

const NEAR = 48; // px from the end that still count as the end

export class Scroll {
  #follows = true;

  constructor(pane) {
    this.box = pane.querySelector(".scroll");
    this.button = Object.assign(document.createElement("button"), {
      type: "button", className: "btn newest", hidden: true, textContent: "↓ To the end",
    });
    this.box.after(this.button);
    this.button.addEventListener("click", () => { this.#follow(true); this.#toEnd(); this.box.focus({ preventScroll: true }); });
    this.box.addEventListener("scroll", () => this.#follow(this.#isAtEnd), { passive: true });
    this.observer = new ResizeObserver(() => this.#grown());
    for (const child of this.box.children) this.observer.observe(child);
    this.observer.observe(this.box);
    if (location.hash && this.box.querySelector(`[id="${CSS.escape(decodeURIComponent(location.hash.slice(1)))}"]`)) this.#follow(false);
    else this.#toEnd();
  }

  close() {
    this.observer.disconnect();
    this.button.remove();
  }

  get #isAtEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR;
  }

  #follow(follows) {
    this.#follows = follows;
    this.button.hidden = follows || this.#isAtEnd;
  }

  #grown() {
    if (this.#follows && !this.#isReading()) this.#toEnd();
    else this.button.hidden = this.#isAtEnd;
  }

  #isReading() {
    const selection = getSelection();
    return !selection.isCollapsed && this.box.contains(selection.anchorNode);
  }

  #toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }
}
