// Links to a message, `#e<seq>` under the address of its session, or `#<session>-e<seq>` anywhere: older turns are
// loaded until it is there.

const MOST_LOADED = 200; // times that older turns are asked for

const wanted = () => /^#(?:([a-z0-9]{26})-)?e(\d+)$/.exec(location.hash) ?? [];

function paneOf() {
  const [hash, session] = wanted();
  if (!hash || session) return document.querySelector(`.pane[data-session="${session}"]`);
  const side = new URL(location.href).searchParams.get("side");
  return document.querySelector(side ? `.pane[data-session="${side}"]` : "#main .pane[data-session]");
}

// The item of the event, or of the one before it: marks of turns and steps have none of their own.
function itemOf(pane, seq) {
  const items = [...pane.querySelectorAll(".transcript:not(.past) > .item[data-seq]")];
  if (!items.length || Number(items[0].dataset.seq) > seq) return null;
  return pane.querySelector(`#${CSS.escape(`${pane.dataset.session}-e${seq}`)}`) ?? items.findLast((item) => Number(item.dataset.seq) <= seq);
}

function older(pane) {
  const more = pane.querySelector(".transcript:not(.past) > li.older");
  if (!more) return null;
  const loaded = new Promise((resolve) => document.addEventListener("htmx:afterSettle", resolve, { once: true }));
  htmx.trigger(more, "click");
  return loaded;
}

export async function find() {
  const pane = paneOf();
  if (!pane) return;
  for (let n = 0; n < MOST_LOADED; n++) {
    const item = itemOf(pane, Number(wanted()[2]));
    if (item) return point(item);
    const loading = older(pane);
    if (!loading) return;
    await loading;
  }
}

function point(item) {
  for (const found of document.querySelectorAll(".item.found")) found.classList.remove("found");
  item.classList.add("found");
  item.scrollIntoView({ block: "center" });
  item.tabIndex = -1;
  item.focus({ preventScroll: true });
}
