// A document's page: the ribbon leads to the text, tags are set, and the document can be deleted.
import { request, problemOf } from "./door.js";

export function readAlong(main, { signal, turnTo }) {
  const ribbon = main.querySelector("#ribbon");
  if (!ribbon) return;
  const starts = JSON.parse(main.querySelector("#chunk-starts").textContent);
  const characters = Number(ribbon.dataset.chars);
  const marker = ribbon.querySelector(".marker");
  const asked = new URLSearchParams(location.search).get("chunk");
  if (asked !== null && starts[asked] !== undefined) place(marker, starts[asked] / characters);
  ribbon.addEventListener("click", (event) => {
    const { left, width } = ribbon.getBoundingClientRect();
    const at = ((event.clientX - left) / width) * characters;
    const next = starts.findIndex((start) => start > at);
    const chunk = Math.max(0, (next < 0 ? starts.length : next) - 1);
    turnTo(`${ribbon.dataset.address}?chunk=${chunk}#chunk-${chunk}`);
  }, { signal });
}

// A rule of an own sheet: the policy of the page allows no style attributes.
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
    const answer = await request(`/api/v1/documents/${form.dataset.document}/tags`, {
      method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ tags }), signal,
    });
    if (answer.ok) again();
    else announce(await problemOf(answer));
  }, { signal });
  const button = main.querySelector("#delete-document");
  button?.addEventListener("click", async () => {
    if (!confirm("Delete this document and everything derived from it?")) return;
    const answer = await request(`/api/v1/documents/${button.dataset.document}`, { method: "DELETE", signal });
    if (answer.ok) turnTo(button.dataset.after);
    else announce(await problemOf(answer));
  }, { signal });
}
