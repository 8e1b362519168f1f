"use strict";
// Two halves that know nothing of each other: a chat over /v1/chat/completions, and a picture of the cache from /kv and
// /metrics, drawn anew twice a second while the page is seen.

const byId = (id) => document.getElementById(id);
const element = (name, text = "", className = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
};
const headers = () => {
  const key = byId("key").value.trim();
  return key ? { Authorization: `Bearer ${key}` } : {};
};

// What the server says is wrong, in its own words.
async function problemOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

// ---- chat ----

let conversation = [];
let running = null;  // the AbortController of the answer that is being written

function show(role, text) {
  byId("welcome")?.remove();
  const box = element("div", text, `message ${role}`);
  byId("messages").append(box);
  box.scrollIntoView({ block: "end" });
  return box;
}

// Each event of a stream of server-sent events, parsed; until [DONE].
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

function requestBody() {
  const body = {
    messages: conversation,
    stream: true,
    stream_options: { include_usage: true },
    temperature: Number(byId("temperature").value),
    max_tokens: Number(byId("max-tokens").value),
  };
  const kv = {};
  for (const name of ["strategy", "type"]) if (byId(name).value.trim()) kv[name] = byId(name).value.trim();
  if (Object.keys(kv).length) body.kv = kv;
  return body;
}

async function answer(box) {
  const began = performance.now();
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(requestBody()),
    signal: running.signal,
  });
  if (!response.ok) throw new Error(await problemOf(response));
  let usage = null, first = null;
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    usage = event.usage ?? usage;
    const text = event.choices?.[0]?.delta?.content;
    if (!text) continue;
    first ??= performance.now();
    const messages = byId("messages");
    const below = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 40;
    box.textContent += text;
    if (below) messages.scrollTop = messages.scrollHeight;
  }
  if (!usage || first === null) return "";
  const seconds = (performance.now() - first) / 1000;
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return `${usage.prompt_tokens} tokens read, ${cached} of them from the cache; first word after ` +
    `${((first - began) / 1000).toFixed(2)} s; ${usage.completion_tokens} written, ` +
    `${(usage.completion_tokens / Math.max(seconds, 1e-3)).toFixed(0)} a second`;
}

async function send() {
  const text = byId("input").value.trim();
  if (!text || running) return;
  byId("input").value = "";
  conversation.push({ role: "user", content: text });
  show("user", text);
  const box = show("assistant", "");
  running = new AbortController();
  byId("stop").hidden = false;
  byId("send").disabled = true;
  let note = "";
  try {
    note = await answer(box);
  } catch (error) {
    if (error.name === "AbortError") note = "stopped";
    else show("error", error.message);
  }
  running = null;
  byId("stop").hidden = true;
  byId("send").disabled = false;
  if (box.textContent) conversation.push({ role: "assistant", content: box.textContent });
  else box.remove();
  if (note) byId("messages").append(element("p", note, "note"));
  byId("messages").scrollTop = byId("messages").scrollHeight;
}

byId("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
byId("stop").addEventListener("click", () => running?.abort());
byId("clear").addEventListener("click", () => {
  running?.abort();
  conversation = [];
  byId("messages").replaceChildren();
  byId("input").focus();
});
byId("input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});

// ---- cache ----

// Neighbouring numbers get colours far apart: steps of the golden angle around the wheel.
const colourOf = (job) => `hsl(${(job * 137.508) % 360} 62% 55%)`;
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i + 1 < units.length; ++i) n /= 1024;
  return `${n >= 100 || i === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
};
const MOST_PIECES = 2000;  // of a store; a browser draws no more at this pace

// Lines "name{labels} value" of Prometheus' text, by all that stands before the value.
function samples(text) {
  const all = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const cut = line.lastIndexOf(" ");
    all.set(line.slice(0, cut), Number(line.slice(cut + 1)));
  }
  return (name) => all.get(name) ?? 0;
}

function drawMap(store) {
  const box = element("div", "", "store");
  const shown = store.pieces.slice(0, MOST_PIECES);
  const blocks = shown.length > 12 || store.strategy.startsWith("paged");
  box.append(element("p", `${store.strategy}, ${store.type}: ${bytes(store.usage.allocated_bytes)}`));
  const map = element("div", "", "map");
  for (const piece of shown) {
    const cell = element("div", "", `piece${blocks ? "" : " row"}${piece.users > 1 ? " shared" : ""}`);
    const full = element("b");
    full.style[blocks ? "height" : "width"] = `${(100 * piece.used_tokens) / Math.max(piece.tokens, 1)}%`;
    full.style.background = piece.users === 0 ? "var(--cached)" : colourOf(piece.job);
    const owner = piece.users === 0 ? "kept for prompts that begin alike"
      : piece.users === 1 ? `request ${piece.job}` : `shared by ${piece.users} sequences`;
    cell.title = `${piece.used_tokens} of ${piece.tokens} tokens, ${bytes(piece.bytes)}: ${owner}`;
    cell.append(full);
    map.append(cell);
  }
  box.append(map);
  const more = store.pieces.length - shown.length;
  if (more > 0) box.append(element("p", `and ${more} more`, "more"));
  return box;
}

function drawMemory(state, metric) {
  const limit = state.limit_bytes;
  const sum = (name) => state.stores.reduce((all, store) => all + store.usage[name], 0);
  const used = sum("used_bytes"), cached = sum("cached_bytes"), wasted = sum("wasted_bytes");
  const unlimited = limit > 2 ** 60;
  const whole = unlimited ? Math.max(used + cached + wasted, 1) : limit;
  const bar = [[used, "var(--accent)"], [wasted, "var(--bad)"], [cached, "var(--cached)"]];
  byId("memory").replaceChildren(...bar.map(([n, colour]) => {
    const part = element("span");
    part.style.width = `${(100 * n) / whole}%`;
    part.style.background = colour;
    return part;
  }));
  const files = metric("kvick_kv_file_blocks");
  byId("memory-text").textContent = `${bytes(used)} in use, ${bytes(wasted)} wasted, ${bytes(cached)} kept for later` +
    (unlimited ? "" : `, of ${bytes(limit)}`) +
    (files ? `; ${bytes(metric("kvick_kv_file_bytes"))} in ${files} files` : "");
}

function drawSequences(state) {
  byId("sequences").tBodies[0].replaceChildren(...state.sequences.map((one) => {
    const row = element("tr");
    const name = element("td");
    const colour = element("i");
    colour.style.background = colourOf(one.job);
    name.append(colour, `${one.job}${one.choice ? `.${one.choice}` : ""}`);
    const store = state.stores[one.store];
    row.append(name, element("td", one.state), element("td", `${store.strategy}, ${store.type}`),
      element("td", one.tokens, "n"), element("td", one.cached_tokens, "n"), element("td", bytes(one.bytes), "n"));
    return row;
  }));
}

let before = null;  // the last look: when, and tokens written until then

function drawFigures(metric) {
  const now = performance.now(), written = metric("kvick_generated_tokens_total");
  if (before && now > before.now)
    byId("rate").textContent = (1000 * (written - before.written) / (now - before.now)).toFixed(0);
  before = { now, written };
  const prompt = metric("kvick_prompt_tokens_total"), cached = metric("kvick_cached_tokens_total");
  byId("hits").textContent = prompt ? `${(100 * cached / prompt).toFixed(0)} %` : "–";
  const jobs = (state) => metric(`kvick_jobs{state="${state}"}`);
  byId("jobs").textContent = `${jobs("running")} run, ${jobs("waiting") + jobs("preempted")} wait`;
  byId("preempted").textContent =
    metric('kvick_preemptions_total{how="swap"}') + metric('kvick_preemptions_total{how="recompute"}');
}

async function look() {
  const [cache, metrics] = await Promise.all(
    ["kv", "metrics"].map((path) => fetch(path, { headers: headers(), cache: "no-store" })));
  if (!cache.ok) throw new Error(await problemOf(cache));
  const state = await cache.json(), metric = samples(await metrics.text());
  drawFigures(metric);
  drawMemory(state, metric);
  byId("maps").replaceChildren(...state.stores.map(drawMap));
  drawSequences(state);
}

async function watch() {
  try {
    if (!document.hidden) await look();
    byId("status").textContent = "";
  } catch (error) {
    byId("status").textContent = error instanceof TypeError ? "no connection to the server" : error.message;
  }
  setTimeout(watch, 500);
}

async function begin() {
  for (const [text, colour, shared] of [["a request", colourOf(1), false], ["shared", colourOf(1), true],
    ["kept for later", "var(--cached)", false], ["free", "var(--free)", false]]) {
    const entry = element("span"), mark = element("i");
    mark.style.background = colour;
    if (shared) mark.style.outline = "2px solid var(--text)";
    if (shared) mark.style.outlineOffset = "-2px";
    entry.append(mark, text);
    byId("legend").append(entry);
  }
  watch();
  try {
    const models = await (await fetch("v1/models", { headers: headers() })).json();
    byId("model").textContent = models.data[0].id;
  } catch {
    // The key is missing, or the server is: the status line says so.
  }
}
begin();
