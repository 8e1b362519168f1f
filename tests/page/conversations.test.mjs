// Tests of the list of conversations, over a document that shows nothing.

import assert from "node:assert/strict";
import test from "node:test";

import { Conversations, MemoryStorage } from "../../src/server/page/conversations.js";
import { ConversationsView } from "../../src/server/page/conversations_view.js";

const made = [], byId = {};
const node = () => ({
  value: "", listeners: {}, classList: { remove() {} },
  append() {}, replaceChildren() {}, setAttribute() {}, select() {}, focus() {},
  addEventListener(name, listener) { this.listeners[name] = listener; },
});
globalThis.document = {
  body: node(),
  getElementById: (id) => byId[id] ??= node(),
  createElement: () => { made.push(node()); return made.at(-1); },
};
globalThis.addEventListener = () => {};

test("a conversation keeps the answer that came while its name was typed", () => {
  const store = new Conversations(new MemoryStorage());
  const open = { ...store.make(), messages: [{ role: "user", content: "hello" }] };
  store.save(open);
  const view = new ConversationsView(store, () => {}, () => false);
  view.show(open);
  view.rename(node(), store.list()[0]);
  const field = made.at(-1);
  open.messages.push({ role: "assistant", content: "an answer" });
  store.save(open);
  field.value = "Better name";
  field.listeners.keydown({ key: "Enter" });
  assert.equal(store.get(open.id).title, "Better name");
  assert.deepEqual(store.get(open.id).messages.map(({ content }) => content), ["hello", "an answer"]);
});
