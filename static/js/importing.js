// Importing with progress: chosen or dropped files go up in one request, which can be cancelled until it is answered.

const LOG = /\.jsonl(\.zstd?)?$/;
const mine = (form, part) => form.querySelector(part);

// The files of what was dropped; of a folder those that are logs.
async function filesOf(entries) {
  const found = await Promise.all(entries.map((entry) => (entry.isDirectory ? below(entry) : [entry.isFile ? file(entry) : entry])));
  return Promise.all(found.flat());
}

const file = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));

async function below(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    for (const entry of some) {
      if (entry.isDirectory) found.push(...(await below(entry)));
      else if (LOG.test(entry.name)) found.push(file(entry));
    }
  }
  return found;
}

function say(form, { done = null, text = "", refusal = "" }) {
  const shown = mine(form, ".progress");
  shown.hidden = !text;
  shown.lastElementChild.textContent = text;
  const bar = shown.firstElementChild;
  if (done === null) bar.removeAttribute("value");
  else bar.value = done;
  mine(form, ".refusal").textContent = refusal;
  mine(form, "[type=submit]").disabled = Boolean(text);
}

function upload(form, files) {
  if (!files.length) return say(form, { refusal: "There is no log among these files." });
  const body = new FormData();
  body.append("csrfmiddlewaretoken", mine(form, "[name=csrfmiddlewaretoken]").value);
  for (const one of files) body.append("files", one, one.webkitRelativePath || one.name);
  const request = new XMLHttpRequest();
  const many = files.length === 1 ? files[0].name : `${files.length} files`;
  request.upload.addEventListener("progress", (event) => {
    const done = event.loaded / event.total;
    say(form, done < 1 ? { done, text: `Sending ${many}: ${Math.floor(done * 100)} %` } : { text: `Reading ${many} …` });
  });
  request.addEventListener("load", () => {
    const to = request.getResponseHeader("HX-Redirect");
    if (to) location.assign(to);
    else say(form, { refusal: request.status === 422 ? request.response : `The server could not do this (error ${request.status}). Nothing was imported.` });
  });
  request.addEventListener("error", () => say(form, { refusal: "The server did not answer. Look whether the sessions are there, or import again: the same file adds nothing." }));
  request.open("POST", form.action);
  request.setRequestHeader("HX-Request", "true");
  say(form, { done: 0, text: `Sending ${many}` });
  request.send(body);
  const stop = (event) => {
    if (event.type === "click" && !event.target.closest("[data-close]")) return;
    request.abort();
  };
  form.addEventListener("click", stop);
  document.getElementById("dialog").addEventListener("close", stop, { once: true });
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form.importing");
  if (!form) return;
  event.preventDefault();
  const inputs = [...form.querySelectorAll("input[type=file]")];
  upload(form, inputs.flatMap((input) => (input.webkitdirectory ? [...input.files].filter((one) => LOG.test(one.name)) : [...input.files])));
});

// Import what was dropped: files, or entries of files and folders.
export async function drop(entries) {
  const files = filesOf(entries);
  await htmx.ajax("GET", "/import/", { target: "#dialog" });
  upload(document.querySelector("#dialog form.importing"), await files);
}
