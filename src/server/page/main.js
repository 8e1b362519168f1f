// The page at /: conversations, a chat, and the picture of the cache. Only this file connects them.

import { watchKeyDialog } from "./api.js";
import { CacheView } from "./cache_view.js";
import { Chat } from "./chat.js";
import { browserStorage, Conversations } from "./conversations.js";
import { ConversationsView } from "./conversations_view.js";
import { byId, element } from "./dom.js";
import { Models } from "./models.js";
import { SettingsView } from "./settings_view.js";
import "./theme.js";

const EXAMPLES = ["What is a key-value cache, in three sentences?", "Write a Python function that reverses a list, and explain it.",
  "Compare tea and coffee in a table."];

watchKeyDialog();
const storage = browserStorage(), settings = new SettingsView(storage), store = new Conversations(storage), models = new Models(storage);
const chat = new Chat({
  settings: () => ({ ...settings.values(), model: models.chosen() }),
  onSave: (conversation) => {
    store.save(conversation);
    list.draw();
  },
});
const list = new ConversationsView(store, (conversation, how) => chat.open(conversation, how), () => Boolean(chat.running));
list.show(store.list()[0] ?? store.make());

for (const text of EXAMPLES) {
  const example = element("button", text, "example");
  example.type = "button";
  example.addEventListener("click", () => { byId("input").value = text; chat.send(); });
  byId("examples").append(example);
}

// Panels that are hidden in a narrow window.
function toggle(buttonId, name) {
  byId(buttonId).addEventListener("click", () => {
    const on = document.body.classList.toggle(name);
    byId(buttonId).setAttribute("aria-expanded", String(on));
  });
}
toggle("open-list", "list-open");
const WIDE = matchMedia("(min-width: 1000px)");
function fitCache() {
  document.body.classList.toggle("cache-open", WIDE.matches);
  byId("open-cache").setAttribute("aria-expanded", String(WIDE.matches));
}
fitCache();
WIDE.addEventListener("change", fitCache);
toggle("open-cache", "cache-open");

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, dialog");
  if (event.key === "/" && !typing) { event.preventDefault(); byId("input").focus(); }
  if (event.altKey && event.code === "KeyN") { event.preventDefault(); list.openNew(); }
  if (event.altKey && event.code === "KeyC") { event.preventDefault(); byId("open-cache").click(); }
  if (event.key === "Escape" && !typing) chat.stop();
});

new CacheView();
byId("input").focus();
