"use strict";
// Two halves that know nothing of each other: a chat over /v1/chat/completions, and a picture of the cache from /kv and
// /metrics, brought up to date twice a second while the page is seen.

const byId = (id) => document.getElementById(id);
const element = (name, text = "", className = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
};
// An element with a mark to be coloured, and room for words.
const withMark = (name) => {
  const made = element(name);
  made.append(element("i"), "");
  return made;
};
// The children of a parent are reused, so that what a person points at, or has chosen, stays where it is.
function fit(parent, count, make) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(make());
  return parent.children;
}
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
  toEnd();
  return box;
}

// A fold above an answer's box, open while the model thinks.
function showThoughts(box) {
  const fold = element("details", "", "thoughts"), text = element("div", "");
  fold.append(element("summary", "Thoughts"), text);
  fold.open = true;
  box.before(fold);
  return text;
}

const toEnd = () => { byId("messages").scrollTop = byId("messages").scrollHeight; };

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

// What is left empty in the settings is left to the server.
function requestBody(messages) {
  const body = { messages, stream: true, stream_options: { include_usage: true } };
  const set = (target, name, id, form) => {
    const value = byId(id).value.trim();
    if (value) target[name] = form(value);
  };
  set(body, "temperature", "temperature", Number);
  set(body, "max_tokens", "max-tokens", Number);
  const kv = {};
  set(kv, "strategy", "strategy", String);
  set(kv, "type", "type", String);
  if (Object.keys(kv).length) body.kv = kv;
  return body;
}

function noteOf(usage, end, waited, wrote) {
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0, written = usage.completion_tokens;
  const pace = written > 1 ? `, ${((written - 1) / Math.max(wrote, 1e-3)).toFixed(0)} a second` : "";
  return `${usage.prompt_tokens} tokens read (${cached} found in the cache), first word after ` +
    `${waited.toFixed(2)} s; ${written} written${pace}` + (end === "length" ? "; cut off at the longest answer" : "");
}

// Text for a box, put there twenty times a second: laid out anew for each token, a long answer leaves no time for a click.
function writer(box) {
  let held = "", timer = null;
  const flush = () => {
    timer = clearTimeout(timer);
    const seen = byId("messages");
    const below = seen.scrollHeight - seen.scrollTop - seen.clientHeight < 40;
    if (held) box.append(held);
    held = "";
    if (below) toEnd();
  };
  return { flush, write: (text) => { held += text; timer ??= setTimeout(flush, 50); } };
}

// Streams the answer into the box; what is to be noted below it.
async function answer(box, messages, signal) {
  const began = performance.now();
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(requestBody(messages)),
    signal,
  });
  if (!response.ok) throw new Error(await problemOf(response));
  let usage = null, first = null, end = "";
  const out = writer(box);
  let thoughts = null;  // where the model's thoughts go, above the answer
  signal.addEventListener("abort", () => { out.flush(); thoughts?.flush(); });
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    usage = event.usage ?? usage;
    end = event.choices?.[0]?.finish_reason ?? end;
    const { content, reasoning_content: thought } = event.choices?.[0]?.delta ?? {};
    if (content || thought) first ??= performance.now();
    if (thought) (thoughts ??= writer(showThoughts(box))).write(thought);
    if (content) out.write(content);
  }
  out.flush();
  thoughts?.flush();
  if (first === null || !usage) return first === null ? "The answer is empty." : "";
  return noteOf(usage, end, (first - began) / 1000, (performance.now() - first) / 1000);
}

// Send and Stop have one place.
function setRunning(controller) {
  running = controller;
  const stopped = document.activeElement === byId("stop");
  byId("stop").hidden = !controller;
  byId("send").hidden = Boolean(controller);
  byId("messages").setAttribute("aria-busy", String(Boolean(controller)));
  if (stopped) byId("input").focus();
}

async function send() {
  const text = byId("input").value.trim();
  if (!text || running) return;
  byId("input").value = "";
  byId("settings").open = false;
  const talk = conversation, controller = new AbortController();
  talk.push({ role: "user", content: text });
  show("user", text);
  const box = show("assistant", "");
  setRunning(controller);
  let note = "", problem = "";
  try { note = await answer(box, talk, controller.signal); } catch (error) {
    if (error.name === "AbortError") note = "Stopped.";
    else problem = error instanceof TypeError ? "no connection to the server" : error.message;
  }
  if (talk !== conversation) return;  // a new chat began meanwhile
  setRunning(null);
  if (box.textContent) talk.push({ role: "assistant", content: box.textContent });
  else {
    // Not answered, so it can be sent again, and is no part of what the model sees next.
    box.remove();
    talk.pop();
    byId("input").value ||= text;
  }
  if (problem) show("error", problem);
  if (note) byId("messages").append(element("p", note, "note"));
  toEnd();
}

byId("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
byId("stop").addEventListener("click", () => running?.abort());
byId("clear").addEventListener("click", () => {
  running?.abort();
  setRunning(null);
  conversation = [];
  byId("messages").replaceChildren();
  byId("input").focus();
});
byId("input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  if (event.key === "Escape") running?.abort();
});
byId("settings").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  byId("settings").open = false;
  byId("settings").firstElementChild.focus();
});

// ---- cache ----

// Neighbouring numbers get colours far apart: steps of the golden angle around the wheel.
const colourOf = (job) => `oklch(var(--owner-light) .13 ${(job * 137.508 % 360).toFixed(1)})`;
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i + 1 < units.length; ++i) n /= 1024;
  return `${n >= 100 || i === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
};
const MOST_PIECES = 2000;  // of a store; a browser draws no more at this pace
const MOST_FREE = 400;     // squares with which free room is drawn too; a larger cap is said in words
const UNLIMITED = 2 ** 60;
const STATES = { waiting: "waiting", prompt: "reading", answer: "writing", swapped: "moved out", evicted: "paused" };

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

const sumOf = (state, name) => state.stores.reduce((all, store) => all + store.usage[name], 0);
const placeOf = (store, state) => state.stores.at(-1).instance > 0 ? `, instance ${store.instance}` : "";
const inBlocks = (store) => store.strategy.startsWith("paged");

function wordsOf(piece) {
  if (!piece) return "Free: room for one more block.";
  const owner = piece.users === 0 ? "kept for prompts that begin alike, until room is needed"
    : piece.users === 1 ? `held by request ${piece.job}` : `shared by ${piece.users} answers, request ${piece.job} among them`;
  return `${piece.used_tokens} of ${piece.tokens} tokens, ${bytes(piece.bytes)}; ${owner}.`;
}

function drawPiece(cell, piece, blocks) {
  const held = piece && piece.users > 0, shared = held && piece.users > 1;
  cell.className = `piece${blocks ? "" : " row"}${piece ? "" : " free"}${shared ? " number" : ""}`;
  cell.style.setProperty("--owner", !piece ? "transparent" : held ? colourOf(piece.job) : "var(--kept)");
  cell.dataset.users = shared ? piece.users : "";
  const share = piece ? `${(100 * piece.used_tokens / Math.max(piece.tokens, 1)).toFixed(0)}%` : "0";
  cell.firstElementChild.style[blocks ? "height" : "width"] = share;
}

function drawStore(box, store, room, place) {
  const blocks = inBlocks(store), shown = Math.min(store.pieces.length, MOST_PIECES);
  const free = blocks ? Math.floor(room / store.usage.page_bytes) : 0;
  const drawn = shown + free <= MOST_FREE ? free : 0;
  const [title, map, more] = box.children;
  const tokens = blocks && store.pieces.length ? `; a square is a block of ${store.pieces[0].tokens} tokens` : "";
  title.replaceChildren(element("b", store.strategy), `, ${store.type}${place}: ${bytes(store.usage.allocated_bytes)}` +
    (blocks ? tokens : "; a bar is what one answer holds"));
  const cells = fit(map, shown + drawn, () => withMark("div"));
  box.pieces = store.pieces;
  for (let i = 0; i < cells.length; ++i) drawPiece(cells[i], store.pieces[i], blocks);
  const rest = store.pieces.length - shown;
  more.textContent = [rest > 0 ? `and ${rest} more` : "", free > drawn ? `and room for ${free} more blocks` : ""]
    .filter(Boolean).join(", ");
  more.hidden = !more.textContent;
}

function drawMaps(state) {
  const room = state.limit_bytes > UNLIMITED ? 0 : Math.max(state.limit_bytes - sumOf(state, "allocated_bytes"), 0);
  const boxes = fit(byId("maps"), state.stores.length, () => {
    const box = element("div", "", "store"), map = element("div", "", "map");
    map.tabIndex = 0;
    map.setAttribute("role", "group");
    map.setAttribute("aria-label", "Pieces of the cache; arrow keys go from one to the next");
    box.append(element("p"), map, element("p"));
    return box;
  });
  state.stores.forEach((store, i) => {
    drawStore(boxes[i], store, room, placeOf(store, state));
    boxes[i].hidden = i > 0 && !store.pieces.length && store.instance === state.stores[i - 1].instance;  // strategies that requests asked for, and nobody now
  });
  drawDetail();
}

// Of the piece that the pointer is on, or that was chosen by a tap or by keys.
let pointed = null, chosen = null;

function drawDetail() {
  [pointed, chosen] = [pointed, chosen].map((cell) => cell?.isConnected ? cell : null);
  for (const old of document.querySelectorAll(".chosen")) if (old !== chosen) old.classList.remove("chosen");
  chosen?.classList.add("chosen");
  const cell = pointed ?? chosen;
  const text = !cell ? "Point at a piece, or tap it, to see whose it is."
    : wordsOf(cell.closest(".store").pieces[[...cell.parentElement.children].indexOf(cell)]);
  if (byId("detail").textContent !== text) byId("detail").textContent = text;
}

byId("maps").addEventListener("pointerover", (event) => {
  pointed = event.pointerType === "mouse" ? event.target.closest(".piece") : null;
  drawDetail();
});
byId("maps").addEventListener("pointerleave", () => { pointed = null; drawDetail(); });
byId("maps").addEventListener("click", (event) => {
  const cell = event.target.closest(".piece");
  chosen = cell === chosen ? null : cell;
  drawDetail();
});
byId("maps").addEventListener("keydown", (event) => {
  const cells = [...event.target.children], at = cells.indexOf(chosen);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: cells.length - 1 }[event.key];
  if (to === undefined || !cells.length) return;
  event.preventDefault();
  chosen = cells[Math.min(Math.max(to, 0), cells.length - 1)];
  drawDetail();
});

// Parts of a bar, each with its words below: [bytes, colour, words].
function drawBar(bar, legend, parts, whole) {
  const spans = fit(bar, parts.length, () => element("span"));
  const entries = fit(legend, parts.length, () => withMark("span"));
  parts.forEach(([n, colour, words], i) => {
    spans[i].style.width = `${100 * n / whole}%`;
    spans[i].style.background = entries[i].firstChild.style.background = colour;
    entries[i].lastChild.data = `${bytes(n)} ${words}`;
  });
}

function drawMemory(state) {
  const limit = state.limit_bytes, shared = sumOf(state, "shared_bytes"), used = sumOf(state, "used_bytes");
  const parts = [[used, "var(--accent)", shared ? `in use (${bytes(shared)} shared)` : "in use"],
    [sumOf(state, "wasted_bytes"), "var(--empty)", "set aside, still empty"],
    [sumOf(state, "cached_bytes"), "var(--kept)", "kept until room is needed"]];
  const taken = parts.reduce((all, part) => all + part[0], 0);
  if (limit <= UNLIMITED) parts.push([Math.max(limit - taken, 0), "var(--free)", "free"]);
  drawBar(byId("memory"), byId("memory-text"), parts, Math.max(limit <= UNLIMITED ? limit : taken, 1));
  byId("limit").textContent = limit <= UNLIMITED ? `at most ${bytes(limit)}` : "";
}

function drawFiles(metric) {
  const limit = metric("kvick_kv_file_limit_bytes"), taken = metric("kvick_kv_file_bytes");
  if ((byId("files").hidden = limit === 0)) return;
  byId("files-limit").textContent = `at most ${bytes(limit)}`;
  byId("files-used").style.width = `${100 * taken / limit}%`;
  byId("files-text").textContent = `${bytes(taken)} in ${metric("kvick_kv_file_blocks")} files; ` +
    `read back ${metric('kvick_kv_file_events_total{event="hit"}')} times`;
}

function drawSequences(state) {
  const all = [...state.sequences].sort((a, b) => a.job - b.job || a.choice - b.choice);
  const many = new Set(all.filter((one) => one.choice > 0).map((one) => one.job));
  const rows = fit(byId("sequences").tBodies[0], all.length, () => {
    const row = element("tr");
    row.append(withMark("td"), element("td"), element("td", "", "wide"), ...[1, 2, 3].map(() => element("td", "", "n")));
    return row;
  });
  all.forEach((one, i) => {
    const [name, ...cells] = rows[i].children, store = state.stores[one.store];
    name.firstChild.style.background = colourOf(one.job);
    name.lastChild.data = many.has(one.job) ? `${one.job}, answer ${one.choice + 1}` : one.job;
    [STATES[one.state] ?? one.state, `${store.strategy}, ${store.type}${placeOf(store, state)}`, one.tokens, one.cached_tokens, bytes(one.bytes)]
      .forEach((text, k) => { cells[k].textContent = text; });
  });
  byId("nobody").hidden = all.length > 0;
}

const looks = [];  // when, and tokens written until then; of the last two seconds, for a pace that can be read

function drawFigures(metric) {
  looks.push({ now: performance.now(), written: metric("kvick_generated_tokens_total") });
  if (looks.length > 5) looks.shift();
  const first = looks[0], last = looks.at(-1);
  if (last.now > first.now)
    byId("rate").textContent = (1000 * (last.written - first.written) / (last.now - first.now)).toFixed(0);
  const prompt = metric("kvick_prompt_tokens_total");
  byId("hits").textContent = prompt ? `${(100 * metric("kvick_cached_tokens_total") / prompt).toFixed(0)} %` : "–";
  const jobs = (state) => metric(`kvick_jobs{state="${state}"}`);
  byId("jobs").textContent = `${jobs("running")} running, ${jobs("waiting") + jobs("preempted")} waiting`;
  const paused = (how) => metric(`kvick_preemptions_total{how="${how}"}`);
  byId("preempted").textContent = `${paused("swap") + paused("recompute")} times`;
}

async function get(path) {
  const response = await fetch(path, { headers: headers(), cache: "no-store" });
  if (!response.ok) throw new Error(await problemOf(response));
  return response;
}

async function look() {
  if (!byId("model").textContent) byId("model").textContent = (await (await get("v1/models")).json()).data[0].id;
  const [cache, metrics] = await Promise.all(["kv", "metrics"].map(get));
  const state = await cache.json(), metric = samples(await metrics.text());
  drawFigures(metric);
  drawMemory(state);
  drawFiles(metric);
  drawMaps(state);
  drawSequences(state);
}

async function watch() {
  let pause = 500;
  try {
    if (!document.hidden) await look();
    byId("status").textContent = "";
  } catch (error) {
    pause = 2000;
    byId("status").textContent = error instanceof TypeError ? "no connection to the server" : error.message;
  }
  setTimeout(watch, pause);
}
watch();
