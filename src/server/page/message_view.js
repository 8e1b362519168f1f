// Shows one message: text, thoughts that can be folded, tool calls, a note with numbers, and buttons.

import { button, copyButton, element, setText } from "./dom.js";
import { codeBlock, showMarkdown } from "./markdown.js";

// Returns JSON with line breaks, or null if the text is no object or list.
export function prettyJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return null; }
}

const NAMES = { user: "You", assistant: "Answer", tool: "Result of a tool" };

export class MessageView {
  // actions: edit(text), retry(), goOn(), lacksResult(call), result(call, text). A missing one has no button.
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.box = element("article", "", `message ${message.role}`);
    this.box.setAttribute("aria-label", NAMES[message.role]);
    this.words = element("div", "", "words");
    this.calls = element("div", "", "calls");
    this.note = element("p", "", "note");
    this.buttons = element("div", "", "actions");
    this.box.append(this.words, this.calls, this.note, this.buttons);
    this.draw(false);
  }

  // running: the answer is still being written.
  draw(running) {
    const { message } = this;
    this.drawThoughts(running);
    if (message.role === "user") setText(this.words, message.content);
    else this.drawWords(running);
    this.words.classList.toggle("waiting", running && !message.content && !message.reasoning_content && !message.tool_calls);
    this.words.hidden = !running && !message.content;
    if (!running) this.drawCalls();
    else if (message.tool_calls) setText(this.calls, `Calls ${message.tool_calls.at(-1).function.name || "a tool"} …`);
    setText(this.note, message.note ?? "");
    this.note.hidden = !message.note;
    this.drawButtons(running);
  }

  drawWords(running) {
    const { content } = this.message, json = running ? null : prettyJson(content);
    if (json === null) return showMarkdown(this.words, content);
    this.words.replaceChildren(codeBlock(json, "json"));
  }

  // Thoughts are open while the model thinks and folded once its answer begins, unless the user has opened or folded them.
  drawThoughts(running) {
    const text = this.message.reasoning_content;
    if (!text) return;
    if (!this.thoughts) {
      this.thoughts = element("details", "", "thoughts");
      this.thoughtWords = element("div", "", "words");
      this.summary = element("summary");
      this.thoughts.append(this.summary, this.thoughtWords);
      this.summary.addEventListener("click", () => { this.moved = true; });
      this.box.prepend(this.thoughts);
    }
    const thinking = running && !this.message.content && !this.message.tool_calls;
    setText(this.summary, thinking ? "Thinking …" : "Thoughts");
    if (!this.moved) this.thoughts.open = thinking;
    showMarkdown(this.thoughtWords, text);
  }

  drawCalls() {
    this.calls.replaceChildren(...(this.message.tool_calls ?? []).map((call) => this.callNode(call)));
  }

  callNode(call) {
    const box = element("section", "", "call"), title = element("p", "Calls ");
    title.append(element("code", call.function.name));
    box.setAttribute("aria-label", `Call of ${call.function.name}`);
    box.append(title, codeBlock(prettyJson(call.function.arguments) ?? call.function.arguments, "json"));
    if (this.actions.lacksResult?.(call)) box.append(this.resultForm(call));
    return box;
  }

  resultForm(call) {
    const form = element("form", "", "result"), field = element("textarea"), send = element("button", "Give this result");
    field.rows = 2;
    field.placeholder = "What the tool answers, as text or JSON";
    field.setAttribute("aria-label", `Result of ${call.function.name}`);
    form.append(field, send);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) this.actions.result(call, field.value.trim());
    });
    return form;
  }

  drawButtons(running) {
    if (running) return this.buttons.replaceChildren();
    const { message, actions } = this, all = [];
    if (message.content) all.push(copyButton(() => message.content, "Copy this message"));
    if (message.role === "user" && actions.edit) all.push(button("Edit", () => this.edit(), { label: "Edit this message" }));
    if (message.role === "assistant" && actions.retry) all.push(button("Retry", actions.retry, { label: "Answer again" }));
    if (message.role === "assistant" && actions.goOn) all.push(button("Continue", actions.goOn, { label: "Continue this answer" }));
    this.buttons.replaceChildren(...all);
  }

  edit() {
    const form = element("form", "", "edit"), field = element("textarea"), row = element("div", "", "actions");
    field.value = this.message.content;
    field.rows = Math.min(12, this.message.content.split("\n").length + 1);
    field.setAttribute("aria-label", "Edit the message");
    const close = () => { form.remove(); this.words.hidden = this.buttons.hidden = false; this.buttons.querySelector("[aria-label^=Edit]")?.focus(); };
    row.append(element("button", "Send again"), button("Cancel", close, { className: "quiet" }));
    form.append(field, row);
    const send = () => { if (field.value.trim()) this.actions.edit(field.value.trim()); };
    form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); close(); }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
    });
    this.words.hidden = this.buttons.hidden = true;
    this.box.prepend(form);
    field.focus();
  }
}
