// Describes in sentences what the picture of the cache shows and what has just happened. Pure functions of a state of /kv and
// samples of /metrics.

import { bytes, count, percent } from "./dom.js";

export const UNLIMITED = 2 ** 60;
const MOST_NAMED = 4;
export const STATES = { waiting: "waiting", prompt: "reading", answer: "writing", swapped: "moved out", evicted: "paused" };

export const sumOf = (state, name) => state.stores.reduce((all, store) => all + (store.usage[name] ?? 0), 0);
const named = (all) => all.slice(0, MOST_NAMED).join(", ") + (all.length > MOST_NAMED ? ` and ${all.length - MOST_NAMED} more` : "");
const requests = (ids) => `${ids.length === 1 ? "Request" : "Requests"} ${named(ids)}`;
const jobsIn = (state, kind) => [...new Set(state.sequences.filter((one) => one.state === kind).map((one) => one.job))];

function sharing(state) {
  const shared = state.stores.flatMap((store) => store.pieces).filter((piece) => piece.users > 1);
  if (!shared.length) return [];
  const held = shared.reduce((all, piece) => all + piece.bytes, 0);
  const alone = shared.reduce((all, piece) => all + piece.bytes * piece.users, 0);
  const most = Math.max(...shared.map((piece) => piece.users));
  const jobs = new Map();
  for (const one of state.sequences) jobs.set(one.job, (jobs.get(one.job) ?? 0) + 1);
  const several = [...jobs].filter(([, n]) => n > 1).map(([job, n]) => `the ${n} answers to request ${job}`);
  const who = several.length ? ` Among them are ${named(several)}, which have one prompt.` : "";
  return [`${count(shared.length, "piece")} (${bytes(held)}) ${shared.length === 1 ? "is" : "are"} shared by up to ${most} answers ` +
    `whose prompts begin alike. Without sharing they would take ${bytes(alone)}.${who}`];
}

function reuse(state) {
  const warm = state.sequences.filter((one) => one.cached_tokens > 0);
  const best = [...new Map(warm.map((one) => [one.job, one])).values()];
  return best.slice(0, MOST_NAMED).map((one) => `Request ${one.job} found ${count(one.cached_tokens, "token")} of its ` +
    `${one.prompt_tokens} in the cache (${percent(one.cached_tokens, one.prompt_tokens)}) and had to read only the rest.`);
}

function paused(state) {
  const out = [], swapped = jobsIn(state, "swapped"), dropped = jobsIn(state, "evicted"), waiting = jobsIn(state, "waiting");
  if (swapped.length)
    out.push(`${requests(swapped)} made room for others: what it had read was moved out of this memory, and comes back by itself.`);
  if (dropped.length)
    out.push(`${requests(dropped)} made room for others: what it had read was dropped and will be computed again, ` +
      "with the same answer.");
  if (waiting.length) out.push(`${requests(waiting)} ${waiting.length === 1 ? "waits" : "wait"} for room or for a turn.`);
  return out;
}

function kept(state, metric) {
  const out = [], cached = sumOf(state, "cached_bytes");
  if (cached > 0)
    out.push(`${bytes(cached)} belong to no request now. They are kept because a later prompt may begin alike, and are evicted ` +
      "as soon as others need the room.");
  const evicted = sumOf(state, "evicted_bytes");
  if (evicted > 0) out.push(`${bytes(evicted)} of such memory have been evicted since the server started.`);
  const slow = sumOf(state, "slow_bytes"), tiers = [...new Set(state.stores.map((store) => store.tier).filter(Boolean))];
  if (slow > 0)
    out.push(`${bytes(slow)} lie in a slower tier${tiers.length ? ` (${named(tiers)})` : ""}; ` +
      `${bytes(sumOf(state, "slow_read_bytes"))} have been read back.`);
  const read = metric('kvick_kv_file_events_total{event="hit"}');
  if (read > 0) out.push(`${count(read, "block")} came from files of prompts that were seen before.`);
  const store = metric('kvick_kv_store_events_total{event="hit"}');
  if (store > 0)
    out.push(`${count(store, "block")} (${bytes(metric('kvick_kv_store_bytes_total{direction="read"}'))}) came from the store ` +
      "that servers share.");
  return out;
}

function skipped(state) {
  return state.stores.filter((store) => store.usage.checks > 0).map((store) =>
    `With ${store.select || "its policy"} an answer reads only the rows that matter most; by ` +
    `${count(store.usage.checks, "sample")} it misses ${(100 * store.usage.lost_mass / store.usage.checks).toFixed(1)} % of the attention.`);
}

export function explain(state, metric) {
  const all = [...sharing(state), ...reuse(state), ...paused(state), ...kept(state, metric), ...skipped(state)];
  if (all.length) return all;
  return [state.sequences.length ? "Each request has its own keys and values; none of the prompts begin alike so far."
    : "The cache is empty. Send a message: its keys and values appear here, and stay for the next message."];
}

const EVENTS = [
  ["kvick_cached_tokens_total", (n) => `${count(n, "token")} of a prompt found in the cache`],
  ['kvick_kv_file_events_total{event="hit"}', (n) => `${count(n, "block")} fetched from files`],
  ['kvick_kv_file_events_total{event="write"}', (n) => `${count(n, "block")} written to files`],
  ['kvick_kv_file_events_total{event="eviction"}', (n) => `${count(n, "file")} evicted`],
  ['kvick_kv_file_events_total{event="torn"}', (n) => `${count(n, "damaged file")} noticed and not used`],
  ['kvick_kv_store_events_total{event="hit"}', (n) => `${count(n, "block")} fetched from the shared store`],
  ['kvick_kv_store_events_total{event="write"}', (n) => `${count(n, "block")} written to the shared store`],
  ['kvick_kv_store_events_total{event="failure"}', (n) => `${count(n, "failure")} of the shared store`],
  ['kvick_preemptions_total{how="swap"}', (n) => `${count(n, "request")} paused, memory moved out`],
  ['kvick_preemptions_total{how="recompute"}', (n) => `${count(n, "request")} paused, memory dropped`],
  ["kvick_recomputed_tokens_total", (n) => `${count(n, "token")} computed again`],
  ['kvick_kv_slow_bytes_total{way="read"}', (n) => `${bytes(n)} read from the slower tier`],
  ['kvick_kv_slow_bytes_total{way="written"}', (n) => `${bytes(n)} moved to the slower tier`],
];

// Returns what happened between two samples {state, metric}, as [{name, n, words(n)}].
export function happened(before, now) {
  const all = EVENTS.map(([name, words]) => ({ name, words, n: now.metric(name) - before.metric(name) }));
  all.push({ name: "evicted_bytes", words: (n) => `${bytes(n)} evicted to make room`,
    n: sumOf(now.state, "evicted_bytes") - sumOf(before.state, "evicted_bytes") });
  return all.filter(({ n }) => n > 0);
}

// Adds events to a list, the newest first. An event that repeats soon is added to its earlier entry, so that it does not fill
// the list.
export function addEvents(list, fresh, now, { most, together }) {
  for (const event of fresh) {
    const at = list.findIndex((one) => one.name === event.name && now - one.last < together);
    const [old] = at >= 0 ? list.splice(at, 1) : [{ n: 0 }];
    list.unshift({ ...event, n: old.n + event.n, last: now });
  }
  list.splice(most);
}

export function wordsOfPiece(piece) {
  if (!piece) return "Free: room for one more block.";
  const owner = piece.users === 0 ? "kept for prompts that begin alike, until room is needed"
    : piece.users === 1 ? `held by request ${piece.job}` : `shared by ${piece.users} answers, request ${piece.job} among them`;
  return `${piece.used_tokens} of ${piece.tokens} tokens, ${bytes(piece.bytes)}; ${owner}.`;
}
