// Suggestions under the search box, as a combobox with a listbox. Without this script the box is a plain search field.
import { base, request } from "./api.js";

const WAIT = 120; // milliseconds without a key before the service is asked
const KINDS = { title: "title", heading: "heading", learned: "learned word", compound: "compound", query: "searched for", word: "" };

export function suggestQueries(part, { signal }) {
  const input = part.querySelector("form.search input[name=q]");
  if (!input) return;
  const list = document.createElement("ul");
  Object.assign(list, { id: "suggestions", className: "suggestions", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  input.after(list);
  // A field of type search may not be a combobox.
  input.type = "text";
  input.enterKeyHint = "search";
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" })) {
    input.setAttribute(name, value);
  }

  let timer = 0;
  let asking = null; // aborts the request in progress, so that an old answer never replaces a newer one
  let typed = input.value; // what the person wrote, while an option is shown in the box
  let chosen = -1;

  function close() {
    clearTimeout(timer);
    asking?.abort();
    list.hidden = true;
    list.replaceChildren();
    choose(-1, { fill: false });
    input.setAttribute("aria-expanded", "false");
  }

  function choose(place, { fill = true } = {}) {
    list.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = place;
    const option = list.children[chosen];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
    if (fill) input.value = option ? option.dataset.text : typed;
  }

  // One more place than there are options: none of them, with what was typed.
  function move(step) {
    const n = list.children.length + 1;
    choose(((chosen + 1 + step + n) % n) - 1);
  }

  function show(suggestions) {
    list.replaceChildren(...suggestions.map(({ text, kind }, place) => {
      const option = document.createElement("li");
      Object.assign(option, { id: `suggestion-${place}`, textContent: text });
      option.dataset.text = text;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      if (KINDS[kind]) {
        const note = document.createElement("small");
        note.textContent = KINDS[kind];
        option.append(" ", note);
      }
      return option;
    }));
    choose(-1, { fill: false });
    list.hidden = !suggestions.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
  }

  // Asks for suggestions, and moves by `step` from what was typed once they are there.
  async function ask(step = 0) {
    clearTimeout(timer);
    asking?.abort();
    asking = new AbortController();
    const own = asking;
    typed = input.value;
    if (!typed.trim()) return close();
    try {
      const response = await request(`${base}/api/v1/suggest?${new URLSearchParams({ q: typed.slice(0, 200) })}`, { signal: own.signal });
      const answer = response.ok ? await response.json() : { suggestions: [] };
      if (!own.signal.aborted && !signal.aborted && document.activeElement === input) {
        show(answer.suggestions);
        if (step) move(step);
      }
    } catch {
      if (!own.signal.aborted) close(); // suggestions are a help; a search says what is wrong
    }
  }

  input.addEventListener("input", () => {
    typed = input.value;
    clearTimeout(timer);
    asking?.abort();
    timer = setTimeout(() => ask(), WAIT);
  }, { signal });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (list.hidden) ask(step);
      else move(step);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      choose(-1);
      close();
    } else if (event.key === "Enter" || event.key === "Tab") close();
  }, { signal });
  input.addEventListener("blur", close, { signal });
  list.addEventListener("mousedown", (event) => event.preventDefault(), { signal }); // the box keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (!option) return;
    input.value = option.dataset.text;
    close();
    input.form.requestSubmit();
  }, { signal });
  signal.addEventListener("abort", close);
}
