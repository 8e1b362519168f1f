// The open conversation: sends messages, stops and repeats answers, edits.

import { request, sentenceOf } from "./api.js";
import { button, byId, element } from "./dom.js";
import { MessageView } from "./message_view.js";
import { requestBody } from "./settings.js";
import { addEvent, events, noteOf, textOf } from "./stream.js";

// The time between redraws of an answer: DRAW_MS, or DRAW_SHARE times what drawing takes. Otherwise clicks would have to wait.
const DRAW_MS = 60, DRAW_SHARE = 4;

export class Chat {
  // settings() returns the values of the form; onSave(conversation) is called when it has changed.
  constructor({ settings, onSave }) {
    Object.assign(this, { settings, onSave, running: null });
    this.list = byId("messages");
    byId("ask").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("stop").addEventListener("click", () => this.stop());
    byId("input").addEventListener("keydown", (event) => this.onKey(event));
    byId("input").addEventListener("input", fitInput);
    addEventListener("pagehide", () => this.keepPart());
  }

  onKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.send(); }
    if (event.key === "Escape") this.stop();
    if (event.key === "ArrowUp" && !byId("input").value && !this.running) {
      const last = this.views?.findLast((view) => view.message.role === "user");
      if (last) { event.preventDefault(); last.edit(); }
    }
  }

  // Shows another conversation. An answer that is being written is stopped, and its part is kept, unless its conversation was removed.
  open(conversation, { removed = false } = {}) {
    if (this.running) this.running.removed = removed;
    this.stop();
    this.setRunning(null);
    this.conversation = conversation;
    this.drawAll();
    this.toEnd();
  }

  stop() { this.running?.controller.abort(); }

  // Saves the part of an answer when the tab is closed or reloaded.
  keepPart() {
    if (!this.running?.message.content && !this.running?.message.reasoning_content) return;
    const { conversation, message } = this.running, part = { ...message, end: "stopped", note: "Stopped." };
    this.onSave({ ...conversation, messages: [...conversation.messages, part] });
  }

  drawAll() {
    byId("welcome").hidden = this.conversation.messages.length > 0;
    this.list.replaceChildren(byId("welcome"));
    this.views = this.conversation.messages.map((message, at) => {
      const view = new MessageView(message, this.actionsOf(message, at));
      this.list.append(view.box);
      return view;
    });
    const last = this.conversation.messages.at(-1);
    if (!this.running && last && last.role !== "assistant" && !this.lacksResults())
      this.list.append(button("Answer this", () => { if (!this.running) this.answer({}); }, { className: "small alone" }));
  }

  // Returns whether tool calls of the last answer have no result yet.
  lacksResults() {
    const { messages } = this.conversation, at = messages.findLastIndex((message) => message.role === "assistant");
    return (messages[at]?.tool_calls ?? []).some((call) => !this.hasResult(at, call));
  }

  // Looks only at later messages, because servers may repeat an id in another answer.
  hasResult(at, call) {
    return this.conversation.messages.slice(at + 1).some((later) => later.tool_call_id === call.id);
  }

  actionsOf(message, at) {
    const last = at === this.conversation.messages.length - 1;
    const open = this.conversation.messages.slice(at + 1).every((later) => later.role === "tool");
    return {
      edit: (text) => this.edit(at, text),
      retry: () => this.retry(at),
      goOn: last && message.content && (message.end === "length" || message.end === "stopped") ? () => this.goOn() : undefined,
      lacksResult: (call) => open && !this.hasResult(at, call),
      result: (call, text) => this.giveResult(call, text),
    };
  }

  send() {
    const text = byId("input").value.trim();
    if (!text || this.running) return;
    byId("input").value = "";
    fitInput();
    this.conversation.messages.push({ role: "user", content: text });
    this.answer({ undo: () => { this.conversation.messages.pop(); byId("input").value ||= text; fitInput(); } });
  }

  // Replaces a message and removes all later ones.
  edit(at, text) {
    if (this.running) return;
    const { messages } = this.conversation, old = messages.splice(at, Infinity, { role: "user", content: text });
    this.answer({ undo: () => messages.splice(at, Infinity, ...old) });
  }

  retry(at) {
    if (this.running) return;
    const { messages } = this.conversation, old = messages.splice(at, Infinity);
    this.answer({ undo: () => messages.splice(at, Infinity, ...old) });
  }

  goOn() {
    if (!this.running) this.answer({ continues: this.conversation.messages.pop() });
  }

  // The model is asked once all calls of the answer have results.
  giveResult(call, text) {
    if (this.running) return;
    this.conversation.messages.push({ role: "tool", tool_call_id: call.id, content: text });
    if (!this.lacksResults()) return this.answer({});
    this.save();
    this.drawAll();
  }

  // Asks for an answer. continues: the answer to continue. undo: restores the conversation if no text came.
  async answer({ continues, undo }) {
    const conversation = this.conversation, controller = new AbortController();
    const message = continues ?? { role: "assistant", content: "" };
    const before = message.content.length, run = { conversation, controller, message };
    delete message.note;
    delete message.end;
    this.setRunning(run);
    this.save();
    this.drawAll();
    const view = new MessageView(message, {});
    view.draw(true);
    this.list.append(view.box);
    this.toEnd();
    let problem = "";
    try {
      const sent = continues ? [...conversation.messages, message] : conversation.messages;
      await this.stream(requestBody(this.settings(), sent, Boolean(continues)), message, view, controller.signal);
    } catch (error) {
      if (error.name !== "AbortError") problem = sentenceOf(error);
      Object.assign(message, { end: "stopped", note: problem ? "Not finished." : "Stopped." });
    }
    delete message.usage;
    this.finish(run, message, { problem, undo, empty: message.content.length === before && !message.reasoning_content && !message.tool_calls, continues });
  }

  finish(run, message, { problem, undo, empty, continues }) {
    const { messages } = run.conversation;
    if (this.running === run) this.setRunning(null);
    if (run.removed) return;  // saving would bring its conversation back
    if (!empty || continues || message.end !== "stopped") messages.push(message);
    else if (this.conversation === run.conversation) undo?.();
    this.save(run.conversation);
    if (this.conversation !== run.conversation) return;
    const below = this.isAtEnd();
    this.drawAll();
    if (problem) this.showProblem(problem);
    if (below) this.toEnd();
  }

  showProblem(problem) {
    const box = element("p", problem, "message error");
    box.setAttribute("role", "alert");
    this.list.append(box);
  }

  async stream(body, message, view, signal) {
    const began = performance.now();
    let first = null, timer = null, pause = DRAW_MS;
    const draw = () => {
      timer = null;
      const start = performance.now(), below = this.isAtEnd();
      view.draw(true);
      if (below) this.toEnd();
      pause = Math.max(DRAW_MS, DRAW_SHARE * (performance.now() - start));
    };
    try {
      const response = await request("v1/chat/completions", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
      for await (const event of events(textOf(response))) {
        if (!addEvent(message, event)) continue;
        first ??= performance.now();
        timer ??= setTimeout(draw, pause);
      }
    } finally {
      clearTimeout(timer);
    }
    message.note = first === null ? "The answer is empty."
      : noteOf(message, (first - began) / 1000, (performance.now() - first) / 1000);
  }

  save(conversation = this.conversation) {
    try { this.onSave(conversation); } catch (error) { this.showProblem(sentenceOf(error)); }
  }

  // Shows Stop in place of Send while an answer is written.
  setRunning(run) {
    this.running = run;
    const stopped = document.activeElement === byId("stop");
    byId("stop").hidden = !run;
    byId("send").hidden = Boolean(run);
    this.list.setAttribute("aria-busy", String(Boolean(run)));
    if (stopped && !run) byId("input").focus();
  }

  isAtEnd() { return this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 60; }
  toEnd() { this.list.scrollTop = this.list.scrollHeight; }
}

// Makes the input as high as its text, up to a limit.
export function fitInput() {
  const input = byId("input");
  input.style.height = "auto";
  input.style.height = `${Math.min(input.scrollHeight + 2, 220)}px`;
}
