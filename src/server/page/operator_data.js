// Computes what an operator wants to know from samples of /metrics and a state of /kv. Does not use the document.

import { roundUpBytes } from "./charts.js";
import { bytes, count, percent, seconds } from "./dom.js";
import { byLabel, reader } from "./metrics.js";

export const WINDOW_MS = 30_000;  // of rates and latencies: short enough to show changes, long enough to be steady
// Three digits are enough.
const rateText = (value) => value === null ? "–" : value >= 100 ? value.toFixed(0) : value.toFixed(1);

// [title, lines of {name, className, value(history)}, text of a value, end of the axis]
export const CHARTS = [
  { id: "requests", title: "Requests", words: (value) => value.toFixed(0), lines: [
    { name: "running", className: "first", value: (history) => last(history, 'kvick_jobs{state="running"}') },
    { name: "waiting", className: "second", value: (history) =>
      last(history, 'kvick_jobs{state="waiting"}') + last(history, 'kvick_jobs{state="preempted"}') }] },
  { id: "tokens", title: "Tokens a second", words: (value) => rateText(value), lines: [
    { name: "written", className: "first", value: (history) => history.rate("kvick_generated_tokens_total", WINDOW_MS / 6) },
    { name: "read", className: "second", value: (history) => readRate(history, WINDOW_MS / 6) }] },
  { id: "first", title: "Until the first token", words: seconds, lines: [
    { name: "median", className: "first", value: (history) => history.quantile("kvick_first_token_seconds", 0.5, WINDOW_MS) },
    { name: "95th percentile", className: "second", value: (history) => history.quantile("kvick_first_token_seconds", 0.95, WINDOW_MS) }] },
  { id: "between", title: "Between tokens", words: seconds, lines: [
    { name: "median", className: "first", value: (history) => history.quantile("kvick_between_tokens_seconds", 0.5, WINDOW_MS) },
    { name: "95th percentile", className: "second", value: (history) => history.quantile("kvick_between_tokens_seconds", 0.95, WINDOW_MS) }] },
  { id: "memory", title: "Keys and values", words: bytes, round: roundUpBytes, lines: [
    { name: "in use", className: "first", value: (history) => last(history, 'kvick_kv_bytes{what="used"}') },
    { name: "kept", className: "second", value: (history) => last(history, 'kvick_kv_bytes{what="cached"}') },
    { name: "taken", className: "third", value: (history) => last(history, 'kvick_kv_bytes{what="allocated"}') }] },
  { id: "found", title: "Prompts found in the cache", top: 1, words: (value) => `${(100 * value).toFixed(0)} %`, lines: [
    { name: "of their tokens", className: "first", value: (history) => hitRate(history, WINDOW_MS) }] },
];

const last = (history, name) => history.looks.at(-1).metrics.get(name) ?? 0;

// Prompt tokens that the model computed.
function readRate(history, milliseconds) {
  const all = history.rate("kvick_prompt_tokens_total", milliseconds);
  return all === null ? null : Math.max(all - history.rate("kvick_cached_tokens_total", milliseconds), 0);
}

export function hitRate(history, milliseconds) {
  const all = history.difference("kvick_prompt_tokens_total", milliseconds);
  return all > 0 ? history.difference("kvick_cached_tokens_total", milliseconds) / all : null;
}

// Groups of rows for the page's tables: [heading, [[name, value, explanation]...]].
export function tables(history) {
  const { metrics } = history.looks.at(-1), metric = reader(metrics);
  return [requestTable(metrics, metric, history), speedTable(metric, history), cacheTable(metric), fileTable(metrics, metric),
    storeTable(metrics, metric), expertTable(metric), instanceTable(metrics), networkTable(metrics, metric)].filter(Boolean);
}

const whole = (n) => Math.round(n).toLocaleString("en");

function requestTable(metrics, metric, history) {
  const ends = byLabel(metrics, "kvick_jobs_total", "end");
  const finished = history.rate('kvick_jobs_total{end="finished"}', WINDOW_MS);
  return ["Requests", [
    ["Finished", whole(ends.finished ?? 0)],
    ["Finished a second", rateText(finished)],
    ["Cancelled by clients", whole(ends.cancelled ?? 0)],
    ["Refused because the queue was full", whole(ends.refused ?? 0)],
    ["Failed", whole(ends.failed ?? 0)],
    ["Tokens of requests now", whole(metric("kvick_job_tokens"))],
    ["Time in the queue, median", seconds(history.quantile("kvick_queue_seconds", 0.5, WINDOW_MS) ?? NaN)],
    ["Time in the queue, 95th percentile", seconds(history.quantile("kvick_queue_seconds", 0.95, WINDOW_MS) ?? NaN)]]];
}

function speedTable(metric, history) {
  const steps = history.difference("kvick_steps_total", WINDOW_MS);
  const drafted = metric("kvick_drafted_tokens_total");
  return ["Steps and draft tokens", [
    ["Steps a second", rateText(history.rate("kvick_steps_total", WINDOW_MS))],
    ["Tokens in a step", steps > 0 ? (history.difference("kvick_step_tokens_total", WINDOW_MS) / steps).toFixed(1) : "–"],
    ["Prompt tokens computed, in all", whole(metric("kvick_prompt_tokens_total") - metric("kvick_cached_tokens_total"))],
    ["Tokens generated, in all", whole(metric("kvick_generated_tokens_total"))],
    ["Draft tokens accepted", percent(metric("kvick_accepted_tokens_total"), drafted)]]];
}

function cacheTable(metric) {
  const limit = metric("kvick_kv_limit_bytes");
  return ["Cache", [
    ["Limit (--kv-memory)", limit > 2 ** 60 ? "none" : bytes(limit)],
    ["Allocated but empty", bytes(metric('kvick_kv_bytes{what="wasted"}'))],
    ["Shared by several answers", bytes(metric('kvick_kv_bytes{what="shared"}'))],
    ["Evicted to make room, in all", bytes(metric("kvick_kv_evicted_bytes_total"))],
    ["Checkpoints of states", whole(metric("kvick_kv_checkpoints"))],
    ["Size of the checkpoints", bytes(metric("kvick_kv_checkpoint_bytes"))],
    ["Tokens computed again without a checkpoint, in all", whole(metric("kvick_read_again_tokens_total"))],
    ["In the slower tier", bytes(metric('kvick_kv_bytes{what="slow"}'))],
    ["Copied by growing and sharing, in all", bytes(metric("kvick_kv_copied_bytes_total"))],
    ["Requests preempted, rows moved out", whole(metric('kvick_preemptions_total{how="swap"}'))],
    ["Requests preempted, rows computed again", whole(metric('kvick_preemptions_total{how="recompute"}'))],
    ["Time lost to preemptions", seconds(metric("kvick_preemption_seconds_total"))],
    ["Prompt tokens found in the cache, in all", percent(metric("kvick_cached_tokens_total"), metric("kvick_prompt_tokens_total"))]]];
}

function fileTable(metrics, metric) {
  if (!metric("kvick_kv_file_limit_bytes")) return null;
  const events = byLabel(metrics, "kvick_kv_file_events_total", "event");
  return ["Files of prompts (--kv-dir)", [
    ["Size", `${bytes(metric("kvick_kv_file_bytes"))} of ${bytes(metric("kvick_kv_file_limit_bytes"))}`],
    ["Blocks", whole(metric("kvick_kv_file_blocks"))],
    ["Read back", whole(events.hit ?? 0)],
    ["Written", whole(events.write ?? 0)],
    ["Evicted", whole(events.eviction ?? 0)],
    ["Damaged, and not used", whole(events.torn ?? 0)],
    ["Found too late, or deleted", whole((events.late ?? 0) + (events.missing ?? 0))],
    ["Not written", whole((events.failed_write ?? 0) + (events.dropped_write ?? 0))]]];
}

function storeTable(metrics, metric) {
  if (!metrics.has("kvick_kv_store_connected")) return null;
  const events = byLabel(metrics, "kvick_kv_store_events_total", "event");
  return ["Shared store (--kv-store)", [
    ["Connected", metric("kvick_kv_store_connected") ? "yes" : "no"],
    ["Blocks found", whole(events.found ?? 0)],
    ["Blocks read", `${whole(events.hit ?? 0)} (${bytes(metric('kvick_kv_store_bytes_total{direction="read"}'))})`],
    ["Blocks written", `${whole(events.write ?? 0)} (${bytes(metric('kvick_kv_store_bytes_total{direction="written"}'))})`],
    ["Requests skipped while disconnected", whole(events.skipped ?? 0)],
    ["Failures", whole(events.failure ?? 0)]]];
}

function expertTable(metric) {
  if (!metric("kvick_expert_limit_bytes")) return null;
  return ["Experts on the disk", [
    ["In memory", `${whole(metric("kvick_experts"))} (${bytes(metric("kvick_expert_bytes"))})`],
    ["On the disk", whole(metric("kvick_experts_on_disk"))],
    ["Found in memory", percent(metric("kvick_expert_hit_rate"), 1)],
    ["Read from the disk, in all", bytes(metric("kvick_expert_read_bytes_total"))]]];
}

function instanceTable(metrics) {
  const finished = byLabel(metrics, "kvick_instance_jobs_finished_total", "instance");
  const names = Object.keys(finished);
  if (!names.length) return null;
  const used = (name) => metrics.get(`kvick_instance_kv_bytes{instance="${name}",what="used"}`) ?? 0;
  const running = (name) => metrics.get(`kvick_instance_jobs{instance="${name}",state="running"}`) ?? 0;
  return ["Instances", names.map((name) => [`Instance ${name}`,
    `${count(running(name), "runs", "run")}, ${whole(finished[name])} finished, ${bytes(used(name))}`])];
}

function networkTable(metrics, metric) {
  const dropped = byLabel(metrics, "kvick_http_dropped_total", "why");
  return ["Network", [
    ["Connections now", whole(metric("kvick_http_connections"))],
    ["Requests, ever", whole(metric("kvick_http_requests_total"))],
    ["Refused, too many", whole(dropped.too_many ?? 0)],
    ["Ended for time, or read too slowly", whole((dropped.timeout ?? 0) + (dropped.slow_reader ?? 0))],
    ["Malformed", whole(dropped.malformed ?? 0)]]];
}

// Memory by group: a row for each kind of cache.
export function groups(state) {
  return state.stores.map((store) => ({
    name: `${store.strategy}, ${store.type}${store.tier ? `, ${store.tier}` : ""}${store.select ? `, ${store.select}` : ""}`,
    instance: store.instance, sequences: store.usage.sequences, used: store.usage.used_bytes, shared: store.usage.shared_bytes,
    cached: store.usage.cached_bytes, empty: store.usage.wasted_bytes, slow: store.usage.slow_bytes,
    evicted: store.usage.evicted_bytes ?? 0,
    lost: store.usage.checks > 0 ? store.usage.lost_mass / store.usage.checks : null,
  }));
}

// Returns sentences about what the operator should look at; none if nothing is wrong.
export function warnings(history) {
  const { metrics } = history.looks.at(-1), metric = reader(metrics), out = [];
  const recent = (name) => history.difference(name, WINDOW_MS);
  if (recent('kvick_jobs_total{end="failed"}') > 0) out.push("Requests have failed in the last half minute; the server's log says why.");
  if (recent('kvick_jobs_total{end="refused"}') > 0) out.push("The queue is full and requests are refused: --max-queue and --max-wait bound it.");
  if (recent('kvick_preemptions_total{how="swap"}') + recent('kvick_preemptions_total{how="recompute"}') > 0)
    out.push("Memory for keys and values is short and requests make room for others: --kv-memory bounds it.");
  if (metrics.get("kvick_kv_store_connected") === 0) out.push("The shared store does not answer; prompts are computed here.");
  if (recent('kvick_kv_file_events_total{event="torn"}') > 0) out.push("Damaged files were found in --kv-dir and removed.");
  if (recent('kvick_http_dropped_total{why="too_many"}') > 0) out.push("There are too many connections, and some were refused.");
  return out;
}
