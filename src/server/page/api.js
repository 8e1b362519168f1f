// Requests to this server. If it needs an API key, the user is asked once. The key is kept until the tab is closed.

import { byId } from "./dom.js";

const KEY = "kvick.key";
let memory = "";  // the key, if the browser has no session storage
let asking = null;
let refused = false;  // the user closed the dialog; only a click opens it again

export function key() {
  try { return sessionStorage.getItem(KEY) ?? memory; } catch { return memory; }
}

function setKey(text) {
  memory = text;
  try { sessionStorage.setItem(KEY, text); } catch { /* kept in memory */ }
}

export class ServerError extends Error {}

// Returns the server's error message.
async function problemOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

// Opens one dialog, even if several requests wait for the key. Resolves to whether a key was given.
function askKey(problem) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("key-dialog"), field = byId("key");
    byId("key-problem").textContent = problem;
    field.value = "";
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "given" && field.value.trim();
      if (given) setKey(given);
      refused = !given;
      asking = null;
      resolve(Boolean(given));
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asking;
}

export async function request(path, options = {}) {
  for (;;) {
    const used = key();
    const headers = { ...options.headers, ...(used ? { Authorization: `Bearer ${used}` } : {}) };
    const response = await fetch(path, { cache: "no-store", ...options, headers });
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401) throw new ServerError(problem);
    if (key() !== used) continue;  // another request has got a new key meanwhile
    const person = options.method === "POST";  // the user pressed Send, so the dialog may open again
    if (refused && !person && !asking) throw new ServerError("this server asks for an API key; send a message, or reload, to enter it");
    if (!await askKey(used ? "The server does not take that key. Enter another one." : "This server asks for an API key."))
      throw new ServerError("this server asks for an API key, and none was entered");
  }
}

export const getJson = async (path) => (await request(path)).json();
export const getText = async (path) => (await request(path)).text();

// Returns one sentence about the error.
export function sentenceOf(error) {
  const text = error instanceof TypeError ? "the server cannot be reached; is it still running?" : error.message;
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;
}

export function watchKeyDialog() {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (byId("key").value.trim()) byId("key-dialog").close("given");
  });
  byId("key-cancel").addEventListener("click", () => byId("key-dialog").close(""));
}
