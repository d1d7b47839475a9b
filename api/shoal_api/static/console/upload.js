// Files, folders and archives, dropped or chosen: sent as one upload, whose job is then shown.
import { authorised } from "./door.js";

const BULK = "/api/v1/documents/bulk";
const TEXTS = /\.(md|markdown|txt)$/i;
const ARCHIVES = { zip: "application/zip", gz: "application/gzip", tgz: "application/gzip" };

export function takeUploads(main, { signal, turnTo, announce }) {
  const drop = main.querySelector("#drop");
  if (!drop) return;
  const state = drop.querySelector("#upload-state");
  const say = (text, isProblem = false) => {
    state.textContent = text;
    state.className = isProblem ? "problem" : "";
  };
  const send = async (found) => {
    const archives = found.filter(({ file }) => archiveType(file.name));
    const texts = found.filter(({ path }) => TEXTS.test(path));
    if (!archives.length && !texts.length) return say("None of these is .md, .markdown, .txt, .zip or .tar.gz.", true);
    try {
      let job = null;
      for (const { file } of archives) job = await upload(file, archiveType(file.name), say, signal);
      if (texts.length) job = await upload(form(texts, drop.querySelector("#upload-tags").value), null, say, signal);
      announce("Uploaded");
      turnTo(`/jobs/${job.id}`);
    } catch (error) {
      if (!signal.aborted) say(error.message, true);
    }
  };
  for (const picker of drop.querySelectorAll("input[type=file]")) {
    picker.addEventListener("change", () => send([...picker.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }))), { signal });
  }
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); }, { signal });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"), { signal });
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    say("Reading what was dropped");
    send(await filesOf(event.dataTransfer));
  }, { signal });
}

function archiveType(name) { return ARCHIVES[/\.(zip|tgz|tar\.gz)$/i.exec(name)?.[1].toLowerCase().replace("tar.", "")]; }

function form(texts, tags) {
  const body = new FormData();
  const wanted = tags.split(",").map((tag) => tag.trim()).filter(Boolean);
  if (wanted.length) body.append("tags", wanted.join(","));
  for (const { file, path } of texts) body.append("files", file, path);
  return body;
}

// XMLHttpRequest, because fetch does not tell how much has been sent.
function upload(body, type, say, signal) {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest();
    sender.open("POST", BULK);
    for (const [name, value] of Object.entries(authorised(type ? { "Content-Type": type } : {}))) sender.setRequestHeader(name, value);
    sender.upload.addEventListener("progress", ({ loaded, total }) => say(`Sending: ${Math.floor((100 * loaded) / Math.max(1, total))} %`));
    sender.addEventListener("load", () => {
      const answer = parsed(sender.responseText);
      if (sender.status === 202) resolve(answer.job);
      else reject(new Error(answer?.detail ?? `The service answered ${sender.status}`));
    });
    sender.addEventListener("error", () => reject(new Error("The service cannot be reached; nothing was stored.")));
    signal.addEventListener("abort", () => sender.abort(), { once: true });
    sender.send(body);
  });
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return null; }
}

async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  return (await Promise.all(entries.map((entry) => below(entry, "")))).flat();
}

async function below(entry, folder) {
  const path = folder + entry.name;
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path }];
  const reader = entry.createReader();
  const found = [];
  for (;;) { // a reader hands out a hundred at a time
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    for (const inner of some) found.push(...(await below(inner, `${path}/`)));
  }
}
