// Keeps the page of a job up to date while the job runs: by server-sent events, or by polling without them.
import { base, request, problemOf } from "./api.js";

const API = `${base}/api/v1/jobs`;
const LEAST_PAUSE = 400; // milliseconds between two updates, however fast events arrive
const PAUSE_WHEN_AWAY = 2000; // milliseconds before the next attempt while the service is unreachable

export function actOnJobs(main, { signal, again }) {
  main.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-act]");
    if (!button) return;
    const { job, act } = button.dataset;
    if (act === "cancel" && !confirm(`Cancel job ${job}? What is stored stays.`)) return;
    button.disabled = true;
    const response = await request(`${API}/${job}/${act}`, { method: "POST", signal }).catch(() => null);
    if (signal.aborted) return;
    if (response?.ok) return again();
    const problem = main.querySelector(`[data-problem="${job}"]`);
    problem.textContent = response ? await problemOf(response) : "The service cannot be reached";
    problem.hidden = false;
    button.disabled = false;
  }, { signal });
}

export function watchJob(main, { signal, announce }) {
  const job = main.querySelector("#job");
  if (job?.dataset.ended === "no") follow(job.dataset.job, { signal, announce });
}

async function follow(id, { signal, announce }) {
  let isAway = false;
  const drawn = async () => {
    const job = await redraw("#job", signal);
    if (isAway) announce("");
    isAway = false;
    if (job?.dataset.ended === "yes") announce(`Job ${id}: ${job.dataset.status}`, "passing");
    return job?.dataset.ended !== "no";
  };
  while (!signal.aborted) {
    try {
      for await (const _ of changes(id, signal)) {
        if (await drawn()) return;
        await pause(LEAST_PAUSE, signal);
      }
      await pause(LEAST_PAUSE, signal); // reconnect after the stream reached its time limit
    } catch (error) {
      if (signal.aborted) return;
      isAway = true;
      announce("The service cannot be reached; trying again");
      await pause(PAUSE_WHEN_AWAY, signal);
    }
  }
}

// Yields once per change of a job. Changes during an update are merged into one.
async function* changes(id, signal) {
  const response = await request(`${API}/${id}/events`, { headers: { Accept: "text/event-stream" }, signal }).catch(() => null);
  if (!response?.ok || !response.body) return void (yield await nextChange(id, signal));
  let isNews = false, isOver = false, wake = () => {};
  const listen = async () => {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      if (!events.some((event) => /^event:/m.test(event))) continue; // a comment that keeps the connection alive
      isNews = true;
      wake();
    }
  };
  listen().catch(() => {}).finally(() => { isOver = true; wake(); });
  for (;;) {
    if (!isNews && !isOver) await new Promise((resolve) => { wake = resolve; });
    if (!isNews) return;
    isNews = false;
    yield;
  }
}

async function nextChange(id, signal) {
  const now = await request(`${API}/${id}`, { signal });
  const tag = now.headers.get("ETag");
  return request(`${API}/${id}?wait=20`, { headers: tag ? { "If-None-Match": tag } : {}, signal });
}

export async function refreshList(main, { signal }) {
  for (let list = main.querySelector("[data-refresh]"); list && !signal.aborted;) {
    await pause(Number(list.dataset.refresh), signal);
    list = await redraw(`#${list.id}`, signal).catch(() => list);
    if (list && list.dataset.refresh === undefined) return;
  }
}

// Fetches this page again and replaces one part of it. Keeps the keyboard focus inside that part.
async function redraw(selector, signal) {
  const response = await request(location.pathname + location.search, { headers: { "Shoal-Part": "main" }, signal });
  if (!response.ok) throw new Error(`the page returned ${response.status}`);
  const drawn = new DOMParser().parseFromString(await response.text(), "text/html").querySelector(selector);
  const old = document.querySelector(selector);
  if (signal.aborted || !drawn || !old) return null;
  const held = old.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = [...old.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
  for (const select of drawn.querySelectorAll("select")) { // keep a selection that is not submitted yet
    const chosen = old.querySelector(`select[name="${select.name}"]`);
    if (chosen) select.value = chosen.value;
  }
  old.replaceWith(document.adoptNode(drawn));
  drawn.querySelectorAll(".scroll").forEach((region, i) => { region.scrollLeft = scrolled[i] ?? 0; });
  if (held) drawn.querySelector(held)?.focus({ preventScroll: true });
  return drawn;
}

function nameOf(element) {
  if (element.dataset.act) return `[data-act="${element.dataset.act}"][data-job="${element.dataset.job}"]`;
  const name = ["href", "name", "aria-label"].find((attribute) => element.hasAttribute(attribute));
  return name ? `${element.localName}[${name}="${CSS.escape(element.getAttribute(name))}"]` : element.localName;
}

export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
