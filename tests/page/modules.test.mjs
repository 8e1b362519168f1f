// Tests of the page's modules that do not need a page.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { addEvents, explain, happened } from "../../src/server/page/cache_words.js";
import { pathOf, roundUp, roundUpBytes } from "../../src/server/page/charts.js";
import { conversationFrom, Conversations, MemoryStorage } from "../../src/server/page/conversations.js";
import { bytes, seconds } from "../../src/server/page/dom.js";
import { History, parseMetrics, quantileOf, reader } from "../../src/server/page/metrics.js";
import { chosenOf, nameOf } from "../../src/server/page/models.js";
import { groups, tables, warnings } from "../../src/server/page/operator_data.js";
import { DEFAULTS, fieldsOf, load, requestBody, save } from "../../src/server/page/settings.js";
import { addEvent, events, noteOf } from "../../src/server/page/stream.js";

const collect = async (chunks) => {
  const all = [];
  for await (const event of events(chunks)) all.push(event);
  return all;
};

test("events are read in parts of any size", async () => {
  const text = ': comment\r\ndata: {"a": 1}\r\n\r\nevent: x\ndata: {"b":\ndata: 2}\n\ndata: [DONE]\n\ndata: {"after": 1}\n\n';
  for (let size = 1; size < text.length; ++size) {
    const chunks = [];
    for (let at = 0; at < text.length; at += size) chunks.push(text.slice(at, at + size));
    assert.deepEqual(await collect(chunks), [{ a: 1 }, { b: 2 }]);
  }
});

test("a stream that ends before [DONE] or is not JSON is an error", async () => {
  await assert.rejects(collect(['data: {"a": 1}\n\n']), /connection ended before the answer/);
  await assert.rejects(collect(["data: {\n\n"]), /no JSON/);
});

test("deltas add up to a message", () => {
  const message = { role: "assistant", content: "" };
  const delta = (value) => addEvent(message, { choices: [{ delta: value }] });
  assert.equal(delta({ role: "assistant", content: "" }), false);
  assert.equal(delta({ reasoning_content: "hm" }), true);
  delta({ content: "a" });
  delta({ content: "b" });
  delta({ tool_calls: [{ index: 1, id: "two", function: { name: "g", arguments: "{" } }] });
  delta({ tool_calls: [{ index: 1, function: { arguments: "}" } }, { index: 0, id: "one", function: { name: "f", arguments: "{}" } }] });
  addEvent(message, { choices: [{ delta: {}, finish_reason: "tool_calls" }] });
  addEvent(message, { choices: [], usage: { prompt_tokens: 9, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 4 } } });
  assert.deepEqual([message.content, message.reasoning_content, message.end], ["ab", "hm", "tool_calls"]);
  assert.deepEqual(message.tool_calls.map((call) => [call.id, call.function.name, call.function.arguments]), [["one", "f", "{}"], ["two", "g", "{}"]]);
  assert.equal(noteOf(message, 0.5, 2), "9 tokens read (4 found in the cache), first word after 0.50 s; 5 written, 2 a second");
  addEvent(message, { choices: [{ delta: {}, finish_reason: "stop", kvick_finish: "loop" }] });
  assert.match(noteOf(message, 0.5, 2), /; ended because it repeats itself$/);
  assert.throws(() => addEvent(message, { error: { message: "no room" } }), /no room/);
  assert.throws(() => delta({ tool_calls: [{ index: 1e9 }] }), /without a place/);
});

test("the model chosen before is used again if it still exists", () => {
  const models = [{ id: "small" }, { id: "large", loaded: false }, { id: "poet", parent: "small" }];
  assert.deepEqual(models.map(nameOf), ["small", "large", "poet (adapts small)"]);
  assert.deepEqual(["large", "poet", "gone", ""].map((before) => chosenOf(models, before)), ["large", "poet", "small", "small"]);
  assert.equal(requestBody({ ...DEFAULTS, model: "large" }, []).model, "large");
  assert.equal("model" in requestBody({ ...DEFAULTS, model: undefined }, []), false);
});

const store = (storage = new MemoryStorage()) => {
  let n = 0;
  return new Conversations(storage, { now: () => ++n, random: () => `c${n}` });
};
const said = (text) => [{ role: "user", content: text }];

test("conversations are saved, listed by last change, and deleted", () => {
  const storage = new MemoryStorage(), all = store(storage);
  const first = all.make(), second = all.make();
  first.messages = said("first question\nmore");
  all.save(first);
  second.messages = said("second");
  all.save(second);
  all.save(first);
  assert.deepEqual(store(storage).list().map((one) => one.title), ["first question", "second"]);
  all.remove(first.id);
  assert.deepEqual(all.list().map((one) => one.title), ["second"]);
  second.messages = [];
  all.save(second);
  assert.equal(all.list().length, 0);
});

test("damaged conversations are not listed", () => {
  const storage = new MemoryStorage();
  storage.setItem("kvick.conversation.a", "{");
  storage.setItem("kvick.conversation.b", '{"id":"b","messages":[{"role":"system","content":1}]}');
  storage.setItem("other", "x");
  assert.deepEqual(store(storage).list(), []);
});

test("an exported file is imported, and of two versions the newer is kept", () => {
  const from = store(), one = from.make();
  one.messages = [...said("hello"), { role: "assistant", content: "hi", note: "n", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", content: "r", tool_call_id: "c" }];
  from.save(one);
  const to = store();
  assert.equal(to.importText(from.exported()), 1);
  assert.deepEqual(to.list(), from.list());
  assert.equal(to.importText(from.exported()), 0);
  for (const [text, problem] of [["{", /no JSON/], ["{}", /no conversations/], ['{"format":"kvick conversations","conversations":[{"id":"../x","messages":[]}]}', /conversation 1/]])
    assert.throws(() => to.importText(text), problem);
});

test("unknown fields of an imported conversation are dropped", () => {
  assert.deepEqual(conversationFrom({ id: "a", updated: "x", extra: 1, messages: [{ role: "user", content: "b", html: "<b>" }] }),
    { id: "a", title: "b", updated: 0, messages: [{ role: "user", content: "b" }] });
});

test("a full storage is reported", () => {
  const full = new MemoryStorage();
  full.setItem = () => { throw new Error("QuotaExceededError"); };
  const all = store(full), one = all.make();
  one.messages = said("x");
  assert.throws(() => all.save(one), /no room for this conversation/);
});

test("empty settings add no fields", () => {
  const empty = Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, ""]));
  assert.deepEqual(fieldsOf(empty), {});
  assert.deepEqual(requestBody(empty, said("x")), { messages: said("x"), stream: true, stream_options: { include_usage: true }, stop_loops: true });
});

test("settings become the fields of a request", () => {
  const values = { ...DEFAULTS, system: "Be brief.", temperature: "0", seed: "5", strategy: "virtual", type: "q8", spec: "auto", "cache-prompt": "no", loops: "go on",
    form: "schema", schema: '{"type":"object"}', tools: '[{"type":"function"}]', "tool-choice": "required" };
  const body = requestBody(values, [...said("x"), { role: "assistant", content: "y", note: "n", end: "length" }], true);
  assert.deepEqual(body.messages, [{ role: "system", content: "Be brief." }, ...said("x"), { role: "assistant", content: "y" }]);
  assert.deepEqual([body.temperature, body.seed, body.kv, body.spec, body.cache_prompt, body.tool_choice, body.continue_final_message, body.add_generation_prompt,
    body.stop_loops], [0, 5, { strategy: "virtual", type: "q8" }, "auto", false, "required", true, false, false]);
  assert.deepEqual(body.response_format, { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } });
});

test("errors name the invalid setting", () => {
  for (const [change, problem] of [[{ temperature: "warm" }, /temperature must be a number/], [{ tools: "{" }, /list of tools cannot be read/],
    [{ tools: "{}" }, /must be a list/], [{ form: "schema" }, /have none/]])
    assert.throws(() => fieldsOf({ ...DEFAULTS, ...change }), problem);
});

test("settings are saved, without unknown ones", () => {
  const storage = new MemoryStorage();
  save(storage, { ...DEFAULTS, seed: "7", old: "x" });
  assert.deepEqual(load(storage), { ...DEFAULTS, seed: "7" });
  storage.setItem("kvick.settings", "[");
  assert.deepEqual(load(storage), DEFAULTS);
});

const looks = (...texts) => {
  const history = new History(60_000);
  texts.forEach((text, i) => history.add(i * 1000, parseMetrics(text)));
  return history;
};

test("rates are differences of counters over time", () => {
  const history = looks("# HELP a x\na 10", "a 20", "a 50");
  assert.equal(history.rate("a", 1000), 30);
  assert.equal(history.rate("a", 60_000), 20);
  assert.equal(looks("a 10").rate("a", 1000), null);
});

test("the numbers of several models are added", () => {
  const metrics = parseMetrics('a{model="x\\"y",state="on"} 1\na{model="z",state="on"} 2\nb{model="z"} 3\nb{model="x"} 4\n' +
                               'vllm:c{model_name="x"} 5');
  assert.deepEqual(Object.fromEntries(metrics), { 'a{state="on"}': 3, b: 7, 'vllm:c{model_name="x"}': 5 });
});

test("unloading a model gives no negative rate", () => {
  assert.equal(looks('a{model="x"} 10\na{model="z"} 5', 'a{model="x"} 10').rate("a", 1000), 0);
});

test("a restarted server begins a new history", () => {
  const history = looks("kvick_http_requests_total 5\na 10");
  assert.equal(history.add(9000, parseMetrics("kvick_http_requests_total 1\na 1")), true);
  assert.equal(history.difference("a", 60_000), 0);
});

test("quantiles count only new values and interpolate within a bucket", () => {
  const bucket = (n) => (le, i) => `t_bucket{le="${le}"} ${n[i]}`;
  const text = (n) => ["0.1", "1", "+Inf"].map(bucket(n)).join("\n");
  const history = looks(text([100, 100, 100]), text([100, 110, 110]));
  assert.ok(Math.abs(history.quantile("t", 0.5, 60_000) - 0.55) < 1e-9);
  assert.equal(looks(text([1, 1, 1]), text([1, 1, 1])).quantile("t", 0.5, 60_000), null);
  assert.equal(quantileOf([[1, 0], [Infinity, 4]], 0.5), 1);
});

const state = (pieces, sequences = [], usage = {}) => ({
  limit_bytes: 1000, sequences,
  stores: [{ instance: 0, strategy: "paged", type: "f16", tier: "", select: "", usage: { cached_bytes: 0, ...usage }, pieces }] });
const none = () => 0;

test("the explanation covers shared, found, moved, cached and evicted rows", () => {
  const one = (job, choice, kind, cached = 0) => ({ job, choice, state: kind, store: 0, tokens: 9, prompt_tokens: 8, cached_tokens: cached, bytes: 1 });
  const said = explain(state([{ bytes: 1024, users: 3, job: 4, used_tokens: 1, tokens: 1 }],
    [one(4, 0, "answer", 4), one(4, 1, "answer", 4), one(5, 0, "swapped"), one(6, 0, "evicted"), one(7, 0, "waiting")],
    { cached_bytes: 2048, evicted_bytes: 4096 }), reader(new Map([['kvick_kv_file_events_total{event="hit"}', 2]]))).join("\n");
  for (const part of ["1 piece (1.0 KiB) is shared by up to 3 answers", "would take 3.0 KiB", "the 2 answers to request 4", "Request 4 found 4 tokens of its 8",
    "Request 5 made room", "moved out", "Request 6 made room", "computed again", "Request 7 waits", "2.0 KiB belong to no request", "4.0 KiB of such memory", "2 blocks came from files"])
    assert.ok(said.includes(part), `${part} is not in:\n${said}`);
});

test("an empty cache is explained", () => {
  assert.match(explain(state([]), none)[0], /cache is empty/);
});

test("only events between two samples are listed", () => {
  const look = (counts, evicted) => ({ state: state([], [], { evicted_bytes: evicted }), metric: (name) => counts[name] ?? 0 });
  const before = look({ kvick_cached_tokens_total: 10 }, 0);
  assert.deepEqual(happened(before, before), []);
  const fresh = happened(before, look({ kvick_cached_tokens_total: 42, 'kvick_preemptions_total{how="swap"}': 1 }, 2048));
  assert.deepEqual(fresh.map(({ n, words }) => words(n)),
    ["32 tokens of a prompt found in the cache", "1 request paused, memory moved out", "2.0 KiB evicted to make room"]);
});

test("events repeated within a short time are one entry, and the list is limited", () => {
  const list = [], event = (name, n) => ({ name, n, words: String }), add = (all, now) => addEvents(list, all, now, { most: 2, together: 10 });
  add([event("a", 1)], 0);
  add([event("b", 2), event("a", 3)], 5);
  assert.deepEqual(list.map(({ name, n }) => [name, n]), [["a", 4], ["b", 2]]);
  add([event("a", 1)], 50);
  assert.deepEqual(list.map(({ name, n }) => [name, n]), [["a", 1], ["a", 4]]);
});

test("operators are warned of new failures and of a store that does not answer", () => {
  assert.deepEqual(warnings(looks('kvick_jobs_total{end="failed"} 3', 'kvick_jobs_total{end="failed"} 3')), []);
  assert.equal(warnings(looks('kvick_jobs_total{end="failed"} 3', 'kvick_jobs_total{end="failed"} 4\nkvick_kv_store_connected 0')).length, 2);
});

test("operators' tables leave out what the server does not have", () => {
  const titles = (text) => tables(looks(text, text)).map(([title]) => title).join();
  assert.ok(!titles("a 1").includes("Files"));
  assert.ok(titles("kvick_kv_file_limit_bytes 5").includes("Files"));
  assert.ok(titles('kvick_instance_jobs_finished_total{instance="0"} 5').includes("Instances"));
  assert.equal(groups(state([], [], { checks: 2, lost_mass: 0.5 }))[0].lost, 0.25);
});

test("charts end at round numbers and leave gaps", () => {
  assert.deepEqual([0, 0.3, 1, 7, 20, 130].map(roundUp), [1, 0.5, 1, 10, 20, 200]);
  assert.equal(roundUpBytes(1500), 2048);
  assert.equal(pathOf([0, 1, 2, 3], [0, null, 1, 2], 3, 2), "M0.0 96.0M213.3 48.0L320.0 0.0");
});

test("numbers are abbreviated", () => {
  assert.deepEqual([0, 1023, 1536, 3 * 2 ** 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
  assert.deepEqual([0.0012, 0.25, 2, 250, NaN].map(seconds), ["1.2 ms", "250 ms", "2.0 s", "250 s", "–"]);
});

// Checks the file sizes of CONTRIBUTING.md and the rules of the page's content security policy.
test("every file of the page is embedded, small, and creates no HTML from text", () => {
  const folder = fileURLToPath(new URL("../../src/server/page/", import.meta.url)), read = (path) => readFileSync(path, "utf8");
  const list = read(`${folder}../CMakeLists.txt`), table = read(`${folder}../api/page_files.cc`);
  for (const name of readdirSync(folder)) {
    const text = read(folder + name);
    assert.ok(list.includes(name), `src/server/CMakeLists.txt does not embed ${name}`);
    assert.ok(table.includes(`page_${name.replace(".", "_")}`), `page_files.cc has no row for ${name}`);
    assert.ok(text.split("\n").length <= 400, `${name} has more than 400 lines`);
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|\sstyle="|\son\w+="|https?:\/\/(?!www\.w3\.org)[a-z]/, name);
  }
});
