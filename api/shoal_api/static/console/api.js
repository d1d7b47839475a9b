// Requests with the key of this tab. It is kept in the tab's session storage and nowhere else.
const NAME = "shoal-key";

// The prefix of all addresses of this page's collection; empty for `main`.
export const base = document.documentElement.dataset.base ?? "";

export function hasKey() { return sessionStorage.getItem(NAME) !== null; }
export function keepKey(key) { sessionStorage.setItem(NAME, key); }
export function forgetKey() { sessionStorage.removeItem(NAME); }

export function authorised(headers = {}) {
  const key = sessionStorage.getItem(NAME);
  return key === null ? headers : { ...headers, Authorization: `Bearer ${key}` };
}

export function request(address, options = {}) {
  return fetch(address, { ...options, headers: authorised(options.headers), credentials: "omit" });
}

// The detail of a problem document, or a message with the status.
export async function problemOf(response) {
  const problem = await response.json().catch(() => null);
  const fields = Object.entries(problem?.errors ?? {}).map(([name, messages]) => `${name} ${[messages].flat().join(", ")}`);
  return [problem?.detail ?? problem?.title ?? `The service returned ${response.status}`, ...fields].join("; ");
}
