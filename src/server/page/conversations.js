// Conversations, kept in this browser. Each has its own key, so that tabs do not overwrite each other's conversations.
//
// A conversation is {id, title, updated, messages}. A message is {role, content}; an assistant's may have reasoning_content,
// tool_calls and note, and a tool's has tool_call_id.

const PREFIX = "kvick.conversation.";
const ROLES = ["user", "assistant", "tool"];
const TITLE_LENGTH = 60;
export const FORMAT = "kvick conversations";

export function titleOf(messages) {
  const first = messages.find((message) => message.role === "user")?.content.trim().split("\n")[0] ?? "";
  if (!first) return "New chat";
  return first.length > TITLE_LENGTH ? `${first.slice(0, TITLE_LENGTH - 1)}…` : first;
}

const isText = (value) => typeof value === "string";

function messageFrom(value) {
  if (!ROLES.includes(value?.role) || !isText(value.content)) return null;
  const message = { role: value.role, content: value.content };
  for (const name of ["reasoning_content", "note", "tool_call_id", "end"]) if (isText(value[name])) message[name] = value[name];
  const calls = (Array.isArray(value.tool_calls) ? value.tool_calls : [])
    .filter((call) => isText(call?.id) && isText(call.function?.name) && isText(call.function?.arguments));
  if (calls.length)
    message.tool_calls = calls.map(({ id, function: { name, arguments: given } }) =>
      ({ id, type: "function", function: { name, arguments: given } }));
  return message;
}

// Returns a checked conversation, or null. The value may come from another version of the page or from any file.
export function conversationFrom(value) {
  if (!isText(value?.id) || !/^[\w-]{1,64}$/.test(value.id) || !Array.isArray(value.messages)) return null;
  const messages = value.messages.map(messageFrom);
  if (messages.includes(null)) return null;
  const updated = Number.isFinite(value.updated) ? value.updated : 0;
  return { id: value.id, title: isText(value.title) && value.title ? value.title.slice(0, 200) : titleOf(messages), updated, messages };
}

// storage: like localStorage. now() returns milliseconds, random() a unique id.
export class Conversations {
  constructor(storage, { now = Date.now, random = () => crypto.randomUUID?.() ?? `c${Date.now()}-${Math.floor(Math.random() * 1e9)}` } = {}) {
    Object.assign(this, { storage, now, random });
  }

  // Returns whether a key of the storage belongs to the conversation.
  isNameOf(name, id) { return name === PREFIX + id; }

  make() {
    return { id: this.random(), title: "", updated: this.now(), messages: [] };
  }

  get(id) {
    try {
      return conversationFrom(JSON.parse(this.storage.getItem(PREFIX + id)));
    } catch {
      return null;
    }
  }

  // The most recently changed first.
  list() {
    const all = [];
    for (let i = 0; i < this.storage.length; ++i) {
      const name = this.storage.key(i);
      const one = name.startsWith(PREFIX) ? this.get(name.slice(PREFIX.length)) : null;
      if (one) all.push(one);
    }
    return all.sort((a, b) => b.updated - a.updated || (a.id < b.id ? -1 : 1));
  }

  // A conversation without messages is removed.
  save(conversation) {
    if (!conversation.messages.length) return this.remove(conversation.id);
    conversation.title ||= titleOf(conversation.messages);
    conversation.updated = this.now();
    this.write(conversation);
  }

  write(conversation) {
    try {
      this.storage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    } catch {
      throw new Error("the browser has no room for this conversation; export the old ones to a file and delete them");
    }
  }

  remove(id) {
    this.storage.removeItem(PREFIX + id);
  }

  exported() {
    return JSON.stringify({ format: FORMAT, version: 1, conversations: this.list() }, null, 1);
  }

  // Returns how many were added. A conversation that is already here and not older is kept.
  importText(text) {
    let file;
    try { file = JSON.parse(text); } catch { throw new Error("this file is no JSON, so nothing was imported"); }
    if (file?.format !== FORMAT || !Array.isArray(file.conversations))
      throw new Error("this file holds no conversations of this page, so nothing was imported");
    const all = file.conversations.map(conversationFrom);
    const wrong = all.indexOf(null);
    if (wrong >= 0) throw new Error(`conversation ${wrong + 1} of this file cannot be read, so nothing was imported`);
    let added = 0;
    for (const one of all) {
      if ((this.get(one.id)?.updated ?? -1) >= one.updated) continue;
      this.write(one);
      ++added;
    }
    return added;
  }
}

// Used if the browser has no storage (some private windows, blocked cookies): conversations are lost with the page.
export class MemoryStorage {
  #items = new Map();
  get length() { return this.#items.size; }
  key(i) { return [...this.#items.keys()][i] ?? null; }
  getItem(name) { return this.#items.get(name) ?? null; }
  setItem(name, text) { this.#items.set(name, String(text)); }
  removeItem(name) { this.#items.delete(name); }
}

export function browserStorage() {
  try {
    localStorage.getItem("kvick");
    return localStorage;
  } catch {
    return new MemoryStorage();
  }
}
