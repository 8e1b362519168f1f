// The list of conversations beside the chat.

import { sentenceOf } from "./api.js";
import { button, byId, count, download, element } from "./dom.js";

export class ConversationsView {
  // onOpen(conversation, {removed}) shows it in place of the open one, which may have been removed. isBusy() returns whether an answer
  // is being written.
  constructor(store, onOpen, isBusy) {
    Object.assign(this, { store, onOpen, isBusy, open: null });
    byId("clear").addEventListener("click", () => this.openNew());
    byId("find").addEventListener("input", () => this.draw());
    byId("export").addEventListener("click", () => this.export());
    byId("import").addEventListener("click", () => byId("import-file").click());
    byId("import-file").addEventListener("change", () => this.import());
    addEventListener("storage", (event) => this.takeOver(event.key));
  }

  // Another tab has changed the storage, perhaps the conversation that is open here.
  takeOver(name) {
    const fresh = this.open && this.store.isNameOf(name, this.open.id) && !this.isBusy() ? this.store.get(this.open.id) : null;
    if (fresh) this.onOpen(this.open = fresh);
    this.draw();
  }

  openNew() {
    this.show(this.store.make());
    byId("input").focus();
  }

  show(conversation, how) {
    this.open = conversation;
    this.onOpen(conversation, how);
    this.closeList();
    this.draw();
  }

  // The conversation whose answer is being written stays open: opening it again would stop the answer.
  choose(one) {
    const writes = one.id === this.open?.id && this.isBusy();
    if (!writes) return this.show(this.store.get(one.id) ?? one);
    this.closeList();
  }

  closeList() {
    document.body.classList.remove("list-open");
    byId("open-list").setAttribute("aria-expanded", "false");
  }

  draw() {
    const all = this.store.list(), wanted = byId("find").value.trim().toLowerCase();
    const shown = all.filter((one) => !wanted || one.title.toLowerCase().includes(wanted) ||
      one.messages.some((message) => message.content.toLowerCase().includes(wanted)));
    byId("conversations").replaceChildren(...shown.map((one) => this.row(one)));
    byId("no-conversations").hidden = shown.length > 0;
    byId("no-conversations").textContent = all.length ? "No conversation has these words." :
      "Conversations are kept in this browser, and nowhere else.";
    byId("find").hidden = all.length < 2 && !wanted;
    byId("export").disabled = all.length === 0;
  }

  row(one) {
    const item = element("li"), name = button(one.title, () => this.choose(one), { className: "name" });
    if (one.id === this.open?.id) name.setAttribute("aria-current", "true");
    name.title = one.title;
    item.append(name,
      button("✎", () => this.rename(item, one), { label: `Rename “${one.title}”`, className: "icon" }),
      button("✕", () => this.remove(one), { label: `Delete “${one.title}”`, className: "icon" }));
    return item;
  }

  rename(item, one) {
    const field = element("input");
    field.value = one.title;
    field.setAttribute("aria-label", "Name of the conversation");
    let done = false;
    const end = (keep) => {
      if (done) return;
      done = true;
      const title = field.value.trim();
      if (keep && title) {
        const kept = this.store.get(one.id) ?? one;  // an answer may have come since the list was drawn
        kept.title = title;
        if (this.open?.id === one.id) this.open.title = title;
        this.store.write(kept);
      }
      this.draw();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
    });
    field.addEventListener("blur", () => end(true));
    item.replaceChildren(field);
    field.select();
    field.focus();
  }

  remove(one) {
    this.store.remove(one.id);
    if (this.open?.id === one.id) this.show(this.store.make(), { removed: true });
    this.draw();
    this.say("Deleted.", button("Undo", () => {
      this.store.write(one);
      this.say("");
      this.draw();
    }));
  }

  export() {
    download("kvick-conversations.json", this.store.exported());
  }

  async import() {
    const [file] = byId("import-file").files;
    byId("import-file").value = "";
    if (!file) return;
    try {
      this.say(`${count(this.store.importText(await file.text()), "conversation")} imported.`);
    } catch (error) {
      this.say(sentenceOf(error));
    }
    this.draw();
  }

  say(text, ...more) {
    byId("list-status").replaceChildren(text, ...more);
  }
}
