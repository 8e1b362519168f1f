// The picture of the cache beside the chat, updated twice a second while it is visible.

import { getJson, getText, sentenceOf } from "./api.js";
import { CacheMap, hueOf, placeOf } from "./cache_map.js";
import { addEvents, explain, happened, STATES, sumOf, UNLIMITED } from "./cache_words.js";
import { bytes, byId, count, element, fit, percent, setSentences, setText, withMark } from "./dom.js";
import { History, parseMetrics, reader } from "./metrics.js";

const PAUSE_MS = 500, PAUSE_AFTER_ERROR_MS = 2000;
const RATE_MS = 2000;  // rates change no more often, so that they can be read
const EVENTS = { most: 8, together: 10_000 };  // events shown; repetitions within so many milliseconds are one

// Draws the parts of a bar and their legend. parts: [bytes, class, words].
function drawBar(bar, legend, parts, whole) {
  const spans = fit(bar, parts.length, () => element("span"));
  const entries = fit(legend, parts.length, () => withMark("span"));
  parts.forEach(([n, name, words], i) => {
    spans[i].style.width = `${100 * n / whole}%`;
    spans[i].className = entries[i].firstChild.className = name;
    entries[i].lastChild.data = `${bytes(n)} ${words}`;
  });
  bar.setAttribute("aria-label", parts.map(([n, , words]) => `${bytes(n)} ${words}`).join(", "));
}

function drawMemory(state) {
  const limit = state.limit_bytes, shared = sumOf(state, "shared_bytes"), limited = limit <= UNLIMITED;
  const parts = [[sumOf(state, "used_bytes"), "used", shared ? `in use (${bytes(shared)} shared)` : "in use"],
    [sumOf(state, "wasted_bytes"), "empty", "set aside, still empty"],
    [sumOf(state, "cached_bytes"), "kept", "kept until room is needed"]];
  const taken = parts.reduce((all, part) => all + part[0], 0);
  if (limited) parts.push([Math.max(limit - taken, 0), "free", "free"]);
  drawBar(byId("memory"), byId("memory-text"), parts, Math.max(limited ? limit : taken, 1));
  setText(byId("limit"), limited ? `at most ${bytes(limit)}` : "");
}

function drawFiles(metric) {
  const limit = metric("kvick_kv_file_limit_bytes"), taken = metric("kvick_kv_file_bytes");
  if ((byId("files").hidden = limit === 0)) return;
  setText(byId("files-limit"), `at most ${bytes(limit)}`);
  byId("files-used").style.width = `${100 * taken / limit}%`;
  setText(byId("files-text"), `${bytes(taken)} in ${count(metric("kvick_kv_file_blocks"), "file")}; ` +
    `read back ${count(metric('kvick_kv_file_events_total{event="hit"}'), "time")}`);
}

function drawSequences(state) {
  const all = [...state.sequences].sort((a, b) => a.job - b.job || a.choice - b.choice);
  const many = new Set(all.filter((one) => one.choice > 0).map((one) => one.job));
  const rows = fit(byId("sequences").tBodies[0], all.length, () => {
    const row = element("tr");
    row.append(withMark("td", "owner"), element("td"), ...[1, 2, 3].map(() => element("td", "", "n")));
    return row;
  });
  all.forEach((one, i) => {
    const [name, ...cells] = rows[i].children, store = state.stores[one.store];
    name.style.setProperty("--hue", hueOf(one.job));
    name.lastChild.data = many.has(one.job) ? `${one.job}, answer ${one.choice + 1}` : one.job;
    name.title = store ? `${store.strategy}, ${store.type}${placeOf(store, state)}` : "";
    [STATES[one.state] ?? one.state, one.tokens, one.cached_tokens, bytes(one.bytes)]
      .forEach((text, k) => setText(cells[k], String(text)));
  });
  byId("sequences").hidden = all.length === 0;
  byId("nobody").hidden = all.length > 0;
}

export class CacheView {
  constructor() {
    this.map = new CacheMap();
    this.history = new History(RATE_MS);
    this.before = null;
    this.events = [];
    this.watch();
  }

  drawFigures(metric) {
    const rate = this.history.rate("kvick_generated_tokens_total", RATE_MS);
    setText(byId("rate"), rate === null ? "–" : rate.toFixed(0));
    setText(byId("hits"), percent(metric("kvick_cached_tokens_total"), metric("kvick_prompt_tokens_total")));
    const jobs = (state) => metric(`kvick_jobs{state="${state}"}`);
    setText(byId("jobs"), `${jobs("running")} run, ${jobs("waiting") + jobs("preempted")} wait`);
    const paused = (how) => metric(`kvick_preemptions_total{how="${how}"}`);
    setText(byId("preempted"), count(paused("swap") + paused("recompute"), "time"));
  }

  drawEvents(now) {
    const fresh = this.before ? happened(this.before, now) : [];
    this.before = now;
    if (!fresh.length) return;
    addEvents(this.events, fresh, Date.now(), EVENTS);
    const time = (milliseconds) => new Date(milliseconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
    setSentences(byId("events"), this.events.map(({ n, words, last }) => `${time(last)}  ${words(n)}`));
    byId("no-events").hidden = true;
  }

  async look() {
    const [state, text] = await Promise.all([getJson("kv"), getText("metrics")]);
    const metrics = parseMetrics(text), metric = reader(metrics);
    if (this.history.add(performance.now(), metrics)) this.before = null;
    this.drawFigures(metric);
    setSentences(byId("words"), explain(state, metric));
    this.drawEvents({ state, metric });
    drawMemory(state);
    drawFiles(metric);
    this.map.draw(state);
    drawSequences(state);
  }

  async watch() {
    let pause = PAUSE_MS;
    try {
      if (!document.hidden && byId("cache").offsetParent !== null) await this.look();
      setText(byId("status"), "");
    } catch (error) {
      pause = PAUSE_AFTER_ERROR_MS;
      setText(byId("status"), sentenceOf(error));
    }
    setTimeout(() => this.watch(), pause);
  }
}
