// Uploads of dropped or chosen files, folders and archives. A panel above every page shows their progress.
import { authorised, base } from "./api.js";

const BULK = `${base}/api/v1/documents/bulk`;
const ARCHIVES = { zip: "application/zip", gz: "application/gzip", tgz: "application/gzip" };
const RATE_SECONDS = 3; // interval over which the rate of an upload is measured
const LEFT_OUT_NAMED = 3;
const KINDS_NAMED = 6; // kinds of skipped files that are named; a folder may hold dozens

const sending = new Set();
let queue = Promise.resolve(); // one upload at a time, so that each has the full bandwidth

export function takeUploads(main, { signal, turnTo, announce }) {
  const drop = main.querySelector("#drop");
  if (!drop) return;
  const problem = drop.querySelector("#upload-problem");
  const complain = (text) => { problem.textContent = text; problem.hidden = !text; };
  const suffixes = new Set(drop.dataset.suffixes.split(" "));
  const ownTags = () => drop.querySelector("#upload-tags").value.split(",").map((tag) => tag.trim()).filter(Boolean);
  const take = async (found) => {
    const tags = ownTags();
    const archives = found.filter(({ file }) => archiveType(file.name));
    const files = found.filter(({ file }) => !archiveType(file.name) && suffixes.has(suffixOf(file.name)));
    const others = found.filter((one) => !archives.includes(one) && !files.includes(one));
    const isAny = archives.length + files.length > 0;
    complain(others.length && !isAny ? leftOut(others) : "");
    if (others.length && isAny) note(passedOver(others)); // in the panel, because this page is replaced by that of the job
    const bodies = archives.map(({ file }) => ({ name: file.name, body: file, type: archiveType(file.name), address: withTags(tags) }));
    if (files.length) bodies.push({ name: files.length === 1 ? files[0].path : `${files.length} files`, body: form(files, tags), address: BULK });
    if (bodies.length) await upload(bodies);
  };
  const upload = async (bodies) => {
    const jobs = (await Promise.all(bodies.map((each) => enqueue(each)))).filter(Boolean);
    if (jobs.length) announce(jobs.length === 1 ? "Uploaded" : `${jobs.length} uploads are done`, "passing");
    // Do not leave a page that the user has opened meanwhile.
    if (signal.aborted || jobs.length < bodies.length) return;
    for (const { id } of jobs) document.getElementById(`upload-of-${id}`)?.remove();
    showPanel();
    turnTo(jobs.length === 1 ? `${base}/jobs/${jobs[0].id}` : `${base}/jobs`);
  };
  drop.querySelector("#fetch")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const { url } = event.target.elements;
    upload([{ name: url.value, body: JSON.stringify({ url: url.value, tags: ownTags() }), type: "application/x-ndjson", address: BULK }]);
    url.value = "";
  }, { signal });
  for (const picker of drop.querySelectorAll("input[type=file]")) {
    picker.addEventListener("change", () => {
      const found = [...picker.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
      picker.value = ""; // so that choosing the same files again is a change
      take(found);
    }, { signal });
  }
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); }, { signal });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"), { signal });
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    announce("Reading what was dropped");
    try {
      const found = await filesOf(event.dataTransfer);
      announce("");
      take(found);
    } catch (error) {
      announce("");
      complain(`The files cannot be read: ${error.message}`);
    }
  }, { signal });
}

addEventListener("beforeunload", (event) => { if (sending.size) event.preventDefault(); });

function leftOut(others) {
  const named = others.slice(0, LEFT_OUT_NAMED).map(({ path }) => path).join(", ");
  const more = others.length > LEFT_OUT_NAMED ? ` and ${others.length - LEFT_OUT_NAMED} more` : "";
  return `Nothing was sent: ${named}${more}. Shoal reads text, PDF, Office, web pages, e-books, mail, tables and code, and .zip, .tgz and .tar.gz of them.`;
}

function suffixOf(name) { return /[^.](\.[^.]+)$/.exec(name)?.[1].toLowerCase() ?? ""; }

// A summary in the style of the command line: "3 skipped: 2 .pdf, 1 .docx".
function passedOver(others) {
  const counts = new Map();
  for (const { file } of others) {
    const kind = suffixOf(file.name) || "without extension";
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const sorted = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  const named = sorted.slice(0, KINDS_NAMED).map(([kind, n]) => `${n} ${kind}`);
  const rest = sorted.slice(KINDS_NAMED).reduce((sum, [, n]) => sum + n, 0);
  if (rest) named.push(`${rest} of other kinds`);
  return `${others.length} skipped: ${named.join(", ")}`;
}

function archiveType(name) { return ARCHIVES[/\.(zip|tgz|tar\.gz)$/i.exec(name)?.[1].toLowerCase().replace("tar.", "")]; }

function withTags(tags) { return tags.length ? `${BULK}?${new URLSearchParams({ tags: tags.join(",") })}` : BULK; }

function form(files, tags) {
  const body = new FormData();
  if (tags.length) body.append("tags", tags.join(","));
  for (const { file, path } of files) body.append("files", file, path);
  return body;
}

// Adds a line to the panel and queues the upload. Resolves to its job, or to null after an error.
function enqueue(upload) {
  const line = drawLine(upload.name);
  const canceled = new AbortController();
  line.cancel.addEventListener("click", () => canceled.abort());
  sending.add(line);
  const sent = queue.then(() => send(upload, line, canceled.signal));
  queue = sent.catch(() => {});
  return sent.then((job) => {
    line.root.id = `upload-of-${job.id}`;
    line.tell("uploaded: ");
    const link = document.createElement("a");
    link.href = `${base}/jobs/${job.id}`;
    link.textContent = `job ${job.id}`;
    line.text.append(link);
    return job;
  }, (error) => {
    line.tell(error.message, true);
    return null;
  }).finally(() => {
    sending.delete(line);
    line.progress.remove();
    line.cancel.textContent = "Dismiss";
    line.cancel.setAttribute("aria-label", `Dismiss ${upload.name}`);
    line.cancel.addEventListener("click", () => { line.root.remove(); showPanel(); });
  });
}

function drawLine(name) {
  const [root, title, progress, text, cancel] = ["div", "b", "progress", "span", "button"].map((tag) => document.createElement(tag));
  root.className = "upload";
  title.textContent = name;
  progress.max = 1;
  progress.value = 0;
  progress.setAttribute("aria-label", `Upload of ${name}`);
  text.textContent = "waiting";
  cancel.type = "button";
  cancel.className = "quiet small";
  cancel.textContent = "Cancel";
  cancel.setAttribute("aria-label", `Cancel the upload of ${name}`);
  root.append(title, progress, text, cancel);
  panel().append(root);
  showPanel();
  const tell = (words, isProblem = false) => { text.textContent = words; text.className = isProblem ? "problem" : ""; };
  return { root, progress, text, cancel, tell };
}

// Adds a line to the panel that stays until it is dismissed.
function note(words) {
  const [root, text, dismiss] = ["div", "span", "button"].map((tag) => document.createElement(tag));
  root.className = "upload note";
  text.setAttribute("role", "status");
  dismiss.type = "button";
  dismiss.className = "quiet small";
  dismiss.textContent = "Dismiss";
  dismiss.setAttribute("aria-label", `Dismiss ${words}`);
  dismiss.addEventListener("click", () => { root.remove(); showPanel(); });
  root.append(text, dismiss);
  panel().append(root);
  showPanel();
  text.textContent = words;
}

function panel() { return document.getElementById("uploads"); }

function showPanel() { panel().hidden = !panel().childElementCount; }

// Uses XMLHttpRequest, because fetch does not report upload progress.
function send({ body, type, address }, line, signal) {
  return new Promise((resolve, reject) => {
    const canceled = () => reject(new Error("canceled; nothing of it was stored"));
    if (signal.aborted) return canceled();
    const sender = new XMLHttpRequest();
    const samples = [];
    sender.open("POST", address);
    for (const [name, value] of Object.entries(authorised(type ? { "Content-Type": type } : {}))) sender.setRequestHeader(name, value);
    sender.upload.addEventListener("progress", ({ loaded, total }) => {
      line.progress.value = loaded / Math.max(1, total);
      line.tell(`${Math.floor((100 * loaded) / Math.max(1, total))} % of ${readable(total)}${rate(samples, loaded)}`);
    });
    sender.upload.addEventListener("load", () => {
      line.progress.removeAttribute("value");
      line.tell("sent; waiting for the response");
    });
    sender.addEventListener("load", () => {
      const response = parsed(sender.responseText);
      if (sender.status === 202) resolve(response.job);
      else reject(new Error(response?.detail ?? `The service returned ${sender.status}`));
    });
    sender.addEventListener("error", () => reject(new Error("The service cannot be reached; nothing was stored.")));
    sender.addEventListener("abort", canceled);
    signal.addEventListener("abort", () => sender.abort(), { once: true });
    sender.send(body);
  });
}

// The rate of the last seconds; empty if there are too few samples.
function rate(samples, loaded) {
  const now = performance.now() / 1000;
  samples.push({ now, loaded });
  while (samples.length > 2 && now - samples[0].now > RATE_SECONDS) samples.shift();
  const seconds = now - samples[0].now;
  return seconds > 0.5 ? `, ${readable((loaded - samples[0].loaded) / seconds)}/s` : "";
}

function readable(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  if (bytes < 1024 ** 2) return `${Math.round(bytes / 1024)} KiB`;
  return `${(bytes / 1024 ** 2).toFixed(1).replace(".0", "")} MiB`;
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
  for (;;) { // a reader returns at most a hundred entries at a time
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return found;
    for (const inner of entries) found.push(...(await below(inner, `${path}/`)));
  }
}
