// The page of a document: navigation by the topic chart, editing of tags, and deletion.
import { base, request, problemOf } from "./api.js";

export function readAlong(main, { signal, turnTo }) {
  const ribbon = main.querySelector("#ribbon");
  if (!ribbon) return;
  const { starts, names, name } = JSON.parse(main.querySelector("#chunk-pieces").textContent);
  const characters = Number(ribbon.dataset.chars);
  const marker = ribbon.querySelector(".marker");
  const pointed = main.querySelector("#pointed");
  const hint = `${pointed.textContent} Click a place to read it, or move with the arrow keys and press Enter.`;
  const last = starts.length - 1;
  let at = Number(ribbon.dataset.chunk ?? 0);
  const named = (chunk) => `Passage ${chunk.toLocaleString("en")} of ${starts.length.toLocaleString("en")}: ${names[name[chunk]]}`;
  const mark = (chunk) => {
    at = Math.max(0, Math.min(last, chunk));
    place(marker, starts[at] / characters);
    ribbon.setAttribute("aria-valuenow", at);
    ribbon.setAttribute("aria-valuetext", named(at));
  };
  const read = (chunk) => turnTo(`${ribbon.dataset.address}?chunk=${chunk}#chunk-${chunk}`);
  const below = ({ clientX }, element) => {
    const { left, width } = element.getBoundingClientRect();
    const character = ((clientX - left) / width) * characters;
    const next = starts.findIndex((start) => start > character);
    return Math.max(0, (next < 0 ? starts.length : next) - 1);
  };
  for (const [name, value] of Object.entries({ role: "slider", tabindex: 0, "aria-label": "Place in the document", "aria-valuemin": 0, "aria-valuemax": last, "aria-describedby": "pointed" })) ribbon.setAttribute(name, value);
  ribbon.querySelector("svg").setAttribute("aria-hidden", "true"); // screen readers read the slider only
  ribbon.setAttribute("aria-valuenow", at);
  ribbon.setAttribute("aria-valuetext", named(at));
  pointed.textContent = hint;
  if (ribbon.dataset.chunk !== undefined) mark(at);
  for (const strip of [ribbon, ...main.querySelectorAll(".rows > svg")]) {
    strip.addEventListener("click", (event) => read(below(event, strip)), { signal });
    strip.addEventListener("pointermove", (event) => { pointed.textContent = named(below(event, strip)); }, { signal });
    strip.addEventListener("pointerleave", () => { pointed.textContent = hint; }, { signal });
  }
  const page = Math.max(1, Math.round(last / 20));
  const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: page, PageDown: -page, Home: -Infinity, End: Infinity };
  ribbon.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") read(at);
    else if (event.key in steps) { mark(at + steps[event.key]); pointed.textContent = named(at); }
    else return;
    event.preventDefault();
  }, { signal });
  ribbon.addEventListener("blur", () => { pointed.textContent = hint; }, { signal });
}

// Uses a style sheet, because the policy of the page forbids style attributes.
function place(marker, share) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`.ribbon .marker { left: ${(100 * share).toFixed(3)}%; }`);
  document.adoptedStyleSheets = [sheet];
  marker.hidden = false;
}

export function changeDocument(main, { signal, turnTo, again, announce }) {
  const form = main.querySelector("#tags-form");
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const tags = new FormData(form).get("tags").split(",").map((tag) => tag.trim()).filter(Boolean);
    const response = await request(`${base}/api/v1/documents/${form.dataset.document}/tags`, {
      method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ tags }), signal,
    });
    if (response.ok) again();
    else announce(await problemOf(response));
  }, { signal });
  const button = main.querySelector("#delete-document");
  button?.addEventListener("click", async () => {
    if (!confirm("Delete this document and everything derived from it?")) return;
    const response = await request(`${base}/api/v1/documents/${button.dataset.document}`, { method: "DELETE", signal });
    if (response.ok) turnTo(button.dataset.after);
    else announce(await problemOf(response));
  }, { signal });
}
