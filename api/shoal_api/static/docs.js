// Forms that try an operation. The key stays in its field: it is stored nowhere, and gone when the page is left.

const SHOWN_CHARS = 100_000;
const SECONDS = 65;
const TEXTS = ["application/json", "application/x-ndjson"];

const key = addKey();
for (const operation of document.querySelectorAll("details[data-method]")) {
  operation.addEventListener("toggle", () => operation.querySelector("form") ?? operation.append(tryForm(operation)));
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function addKey() {
  const field = element("input", { type: "password", autocomplete: "off", spellcheck: false });
  const hint = " sent with what you try below, stored nowhere";
  const label = element("label", { className: "key" }, "Key, if the service has keys ", field, element("small", {}, hint));
  document.querySelector("main").prepend(label);
  return field;
}

function tryForm(operation) {
  const { method, path, sample } = operation.dataset;
  const fields = [...operation.querySelectorAll("tr[data-name]")].map((row) => {
    const input = element("input", { name: row.dataset.name, autocomplete: "off", spellcheck: false });
    input.dataset.in = row.dataset.in;
    input.required = row.dataset.in === "path";
    return element("label", {}, `${row.dataset.name} `, input);
  });
  const kinds = [...operation.querySelectorAll("h3[data-kind]")].map((heading) => heading.dataset.kind);
  const form = element("form", { className: "try" }, element("h3", {}, "Try it"), ...fields);
  const kind = element("select", { name: "kind" }, ...kinds.map((each) => element("option", {}, each)));
  const text = element("textarea", { rows: Math.min(12, sample.split("\n").length + 1), value: sample, spellcheck: false });
  const file = element("input", { type: "file", multiple: true });
  const textLabel = element("label", {}, "Body ", text);
  const fileLabel = element("label", {}, "Files ", file);
  const showBody = () => {
    textLabel.hidden = !TEXTS.includes(kind.value);
    fileLabel.hidden = !textLabel.hidden;
  };
  if (kinds.length) {
    kind.value = kinds.find((each) => TEXTS.includes(each)) ?? kinds[0];
    kind.addEventListener("change", showBody);
    form.append(element("label", {}, "Content type ", kind), textLabel, fileLabel);
    showBody();
  }
  const send = element("button", {}, `Send ${method}`);
  const status = element("p", { role: "status" });
  const shown = element("pre", { hidden: true });
  form.append(send, status, shown);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    status.textContent = "Sending …";
    shown.hidden = true;
    const body = kinds.length ? bodyOf(kind.value, text.value, file.files) : {};
    await perform(method, addressOf(path, form), { ...headersOf(form), ...body.headers }, body.content, status, shown);
    send.disabled = false;
  });
  return form;
}

function inputsIn(form, place) {
  return [...form.querySelectorAll(`input[data-in=${place}]`)].filter((input) => input.value !== "");
}

function addressOf(path, form) {
  const filled = inputsIn(form, "path").reduce(
    (address, input) => address.replace(`{${input.name}}`, encodeURIComponent(input.value)),
    path,
  );
  const query = new URLSearchParams(inputsIn(form, "query").map((input) => [input.name, input.value]));
  return query.size ? `${filled}?${query}` : filled;
}

function headersOf(form) {
  const headers = Object.fromEntries(inputsIn(form, "header").map((input) => [input.name, input.value]));
  return key.value ? { ...headers, Authorization: `Bearer ${key.value}` } : headers;
}

function bodyOf(kind, text, files) {
  if (TEXTS.includes(kind)) return text.trim() ? { headers: { "Content-Type": kind }, content: text } : { headers: {} };
  if (kind !== "multipart/form-data") return { headers: { "Content-Type": kind }, content: files[0] };
  const content = new FormData();
  for (const file of files) content.append("files", file, file.name);
  // The browser sets the content type, with its boundary.
  return { headers: {}, content };
}

async function perform(method, address, headers, body, status, shown) {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), SECONDS * 1000);
  const started = performance.now();
  try {
    const response = await fetch(address, { method, headers, body, signal: control.signal, cache: "no-store" });
    const kind = response.headers.get("Content-Type") ?? "";
    shown.textContent = await read(response, kind);
    const ms = Math.round(performance.now() - started);
    status.textContent = `${method} ${address}: ${response.status} ${response.statusText}, ${ms} ms, ${kind || "no body"}`;
    shown.hidden = shown.textContent === "";
  } catch (error) {
    status.textContent = error.name === "AbortError" ? `Stopped after ${SECONDS} seconds` : `Not sent: ${error.message}`;
  } finally {
    clearTimeout(timer);
  }
}

// At most SHOWN_CHARS of a text, of which a stream of events may have no end.
async function read(response, kind) {
  if (!response.body) return "";
  if (!/json|text|yaml/.test(kind)) {
    await response.body.cancel();
    return "(not a text)";
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done && text.length <= SHOWN_CHARS; part = await reader.read()) text += part.value;
  if (text.length > SHOWN_CHARS) {
    await reader.cancel();
    return `${text.slice(0, SHOWN_CHARS)}\n… (cut)`;
  }
  return kind.includes("json") && !kind.includes("ndjson") ? JSON.stringify(JSON.parse(text), null, 2) : text;
}
