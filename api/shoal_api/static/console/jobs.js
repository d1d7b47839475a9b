// A job's page stays true while the job runs: by server-sent events, or by asking again where they are not to be had.
import { request, problemOf } from "./door.js";

const API = "/api/v1/jobs";
const LEAST_PAUSE = 400; // milliseconds between two drawings, however quickly events come

export function watchJob(main, { signal, again, announce }) {
  const job = main.querySelector("#job");
  if (!job) return;
  for (const button of job.querySelectorAll("[data-act]")) {
    button.addEventListener("click", async () => {
      button.disabled = true;
      const answer = await request(`${API}/${job.dataset.job}/${button.dataset.act}`, { method: "POST", signal });
      if (answer.ok) return again();
      const problem = job.querySelector("#job-problem");
      problem.textContent = await problemOf(answer);
      problem.hidden = false;
      button.disabled = false;
    }, { signal });
  }
  if (job.dataset.ended === "no") follow(job.dataset.job, { signal, again, announce });
}

async function follow(id, { signal, again, announce }) {
  await pause(LEAST_PAUSE, signal);
  try {
    const answer = await request(`${API}/${id}/events`, { headers: { Accept: "text/event-stream" }, signal });
    if (answer.ok && answer.body) {
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      await reader.read(); // the state as it is already drawn
      const { done } = await reader.read(); // the next change, or the end of the stream
      await reader.cancel().catch(() => {});
      if (!done && !signal.aborted) return again();
    }
    await nextChange(id, signal);
    if (!signal.aborted) again();
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    announce("The service cannot be reached; trying again");
    await pause(2000, signal);
    if (!signal.aborted) follow(id, { signal, again, announce });
  }
}

async function nextChange(id, signal) {
  const now = await request(`${API}/${id}`, { signal });
  const tag = now.headers.get("ETag");
  await request(`${API}/${id}?wait=20`, { headers: tag ? { "If-None-Match": tag } : {}, signal });
}

export function refreshList(main, { signal, again }) {
  const list = main.querySelector("[data-refresh]");
  if (list) pause(Number(list.dataset.refresh), signal).then(() => { if (!signal.aborted) again(); });
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
