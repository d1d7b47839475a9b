// Navigation of the console: fetches only the main part of the next page, with the key of this tab if there is one.
// Without this script, links and forms work as usual.
import { base, request, forgetKey, hasKey, keepKey } from "./api.js";
import { actOnJobs, watchJob, refreshList } from "./jobs.js";
import { takeUploads } from "./upload.js";
import { suggestQueries } from "./suggest.js";
import { showNearest } from "./nearest.js";
import { readAlong, changeDocument } from "./document.js";

const WIDE = "(min-width: 62rem)"; // where the page has a column beside the text

let turning = null; // aborts the scripts of the current page

// Shows the page at an address. With a `body`, sends the body there first: the page is then the one that the service
// redirects to, or says why it refuses.
async function turnTo(address, { push = true, focus = true, body = undefined, done = "" } = {}) {
  turning?.abort();
  turning = new AbortController();
  const { signal } = turning;
  announce("Loading", "waiting");
  try {
    const response = await request(address, { method: body ? "POST" : "GET", body, headers: { "Shoal-Part": "main" }, signal });
    if (body) address = response.redirected ? pathOf(new URL(response.url)) : pathOf(location);
    if (response.status === 401) return await askForKey(address);
    if (!response.headers.get("Content-Type")?.startsWith("text/html")) {
      return complain((await response.json().catch(() => null))?.detail ?? `The service returned ${response.status}`);
    }
    const part = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main");
    if (push && address !== location.pathname + location.search + location.hash) history.pushState({}, "", address);
    show(part);
    markCurrent();
    if (focus) main().focus({ preventScroll: true });
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (focus) target ? target.scrollIntoView() : scrollTo(0, 0);
    announce(response.ok ? main().querySelector("[data-done-instead]")?.dataset.doneInstead ?? done : "", "passing");
    begin(signal);
  } catch (error) {
    if (error.name !== "AbortError") announce("The service cannot be reached");
  }
}

function pathOf(url) { return url.pathname + url.search + url.hash; }

function main() { return document.getElementById("main"); }

function show(part) {
  if (!part) throw new Error("the response has no main part");
  main().replaceWith(document.adoptNode(part));
  document.title = `${main().dataset.title} · Shoal`;
}

// `kind`: "waiting" appears after a delay, "passing" for some seconds, anything else until the next message.
function announce(text, kind = "") {
  const announcer = document.getElementById("announcer");
  announcer.textContent = text;
  announcer.className = kind;
}

// Says why a page is not shown: in the form for the key where it stands in the place of the page.
function complain(text) {
  const problem = document.getElementById("key-problem");
  if (!problem) return announce(text);
  problem.textContent = text;
  problem.hidden = false;
  announce("");
  markCurrent();
}

function markCurrent() {
  for (const link of document.querySelectorAll("body > header nav a")) {
    if (link.dataset.page && link.dataset.page === main().dataset.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("forget-key").hidden = !hasKey();
  // Only the main part is fetched with the key, and the frame was drawn without it.
  const { collection } = main().dataset, link = document.getElementById("collection");
  link.hidden = !collection;
  link.textContent = collection;
  link.setAttribute("aria-label", `Collection ${collection}; choose another`);
}

async function askForKey(address) {
  forgetKey();
  const response = await fetch(`${base}/`, { headers: { Accept: "text/html" } });
  show(new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main"));
  begin(turning.signal, address);
  complain("A valid key is needed.");
}

// Starts the scripts of a page. `signal` aborts them when another page is shown.
function begin(signal, after = location.pathname + location.search + location.hash) {
  const again = () => turnTo(location.pathname + location.search + location.hash, { push: false, focus: false });
  const form = document.getElementById("key-form");
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    keepKey(new FormData(form).get("key").trim());
    turnTo(after);
  }, { signal });
  if (main().querySelector("[data-locked]") && hasKey()) return void turnTo(after, { push: false });
  actOnJobs(main(), { signal, again });
  watchJob(main(), { signal, announce });
  refreshList(main(), { signal });
  takeUploads(main(), { signal, turnTo, announce });
  readAlong(main(), { signal, turnTo });
  suggestQueries(main(), { signal });
  showNearest(main(), { signal });
  changeDocument(main(), { signal, turnTo, again, announce });
  for (const details of main().querySelectorAll("details[data-open-wide]")) {
    details.open = matchMedia(WIDE).matches || `#${details.id}` === location.hash;
  }
  showCurrentSection();
  for (const button of main().querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        button.textContent = button.dataset.copy; // no clipboard access: show the text for copying by hand
      }
    }, { signal });
  }
}

function showCurrentSection() {
  const list = main().querySelector(".sections");
  const current = list?.querySelector("[aria-current]");
  if (current) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 3;
}

// A page of another collection is loaded whole, because the links of the frame have its prefix.
function isOurs(url) {
  const [prefix, path] = split(url.pathname);
  return url.origin === location.origin && prefix === base && !/^\/(api|docs|openapi|metrics|static|health|ready)\b/.test(path);
}

function split(path) {
  const [prefix] = /^\/collections\/[^/]+(?=\/|$)/.exec(path) ?? [""];
  return [prefix, path.slice(prefix.length)];
}

const FILE = /^\/api\/v1\/documents\/\d+\/(file|content)$/;

// A link cannot carry the key, so the page fetches the file.
async function openFile(url, clicked) {
  const response = await request(url.pathname);
  if (!response.ok) { location.assign(url); return; }
  const isPdf = response.headers.get("Content-Type") === "application/pdf";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob()) + url.hash;
  if (isPdf && !clicked.hasAttribute("download")) link.target = "_blank";
  else link.download = clicked.download || (/filename="?([^";]+)/.exec(response.headers.get("Content-Disposition"))?.[1] ?? "file");
  link.click();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href.baseVal ?? link.href, location.href);
  if (hasKey() && url.origin === location.origin && FILE.test(split(url.pathname)[1])) {
    event.preventDefault();
    openFile(url, link);
    return;
  }
  if (!isOurs(url) || link.dataset.whole !== undefined || link.classList.contains("skip")) return;
  event.preventDefault();
  turnTo(url.pathname + url.search + url.hash);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !form.hasAttribute("action")) return;
  event.preventDefault();
  if (form.method === "post") return void send(form, event.submitter);
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) query.append(name, value.trim());
  const address = new URL(form.action).pathname;
  turnTo(query.size ? `${address}?${query}` : address);
});

async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  button.disabled = true; // a second click must not send the form again
  await turnTo(pathOf(new URL(form.action)), { body, done: form.dataset.done });
  button.disabled = false;
}

addEventListener("popstate", () => turnTo(location.pathname + location.search + location.hash, { push: false }));

document.getElementById("forget-key").addEventListener("click", () => { forgetKey(); location.reload(); });

turning = new AbortController();
markCurrent();
begin(turning.signal);
