// Asks for the sentences of the results that are nearest to the query, after the page is shown: an encoder reads them.
import { request } from "./api.js";

export async function showNearest(main, { signal }) {
  const query = main.querySelector(".results")?.dataset.query;
  const places = [...main.querySelectorAll("[data-nearest]")];
  if (!query || !places.length) return;
  const chunks = places.map((place) => place.dataset.nearest).join(",");
  const response = await request(`/nearest?${new URLSearchParams({ q: query, chunks })}`, { signal }).catch(() => null);
  if (signal.aborted || !response?.ok) return;
  const answer = new DOMParser().parseFromString(await response.text(), "text/html");
  if (signal.aborted) return;
  for (const place of places) {
    const item = answer.querySelector(`[data-chunk="${place.dataset.nearest}"]`);
    if (!item) continue;
    place.textContent = item.textContent;
    place.title = item.textContent; // all of it, where two lines are too few
    if (item.dataset.sentence) for (const text of place.closest("article").querySelectorAll(":is(.passage, .passage details) > :is(p, .rendered)")) underline(text, item.dataset.sentence);
  }
}

// Underlines a sentence in a text. Excerpts have fewer blank lines than the passage, so white space is not compared.
function underline(element, sentence) {
  const letters = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (let at = 0; at < node.length; at++) if (/\S/.test(node.data[at])) letters.push([node, at]);
  }
  const wanted = sentence.replace(/\s+/g, "");
  const first = letters.map(([node, at]) => node.data[at]).join("").indexOf(wanted);
  if (first < 0 || !wanted) return;
  const found = letters.slice(first, first + wanted.length);
  const [start, end] = [found[0], found.at(-1)];
  for (const node of new Set(found.map(([node]) => node))) {
    const range = document.createRange();
    range.setStart(node, node === start[0] ? start[1] : 0);
    range.setEnd(node, node === end[0] ? end[1] + 1 : node.length);
    const near = document.createElement("span");
    near.className = "near";
    range.surroundContents(near);
  }
}
