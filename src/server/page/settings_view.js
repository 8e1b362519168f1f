// The dialog of the settings. A field is saved as soon as it changes.

import { byId } from "./dom.js";
import { DEFAULTS, load, save } from "./settings.js";
import { setTheme, theme } from "./theme.js";

export class SettingsView {
  constructor(storage) {
    this.storage = storage;
    this.form = byId("settings-form");
    this.show(load(storage));
    this.form.addEventListener("input", () => { save(storage, this.values()); this.showFolds(); });
    this.form.addEventListener("submit", (event) => { event.preventDefault(); byId("settings").close(); });
    byId("defaults").addEventListener("click", () => { this.show(DEFAULTS); save(storage, DEFAULTS); });
    byId("open-settings").addEventListener("click", () => byId("settings").showModal());
    byId("theme").value = theme();
    byId("theme").addEventListener("change", () => setTheme(byId("theme").value));
    // A click outside the dialog closes it.
    byId("settings").addEventListener("click", (event) => { if (event.target === byId("settings")) byId("settings").close(); });
  }

  show(values) {
    for (const [name, value] of Object.entries(values)) this.form.elements[name].value = value;
    this.showFolds();
  }

  // Shows the fields that depend on the values of others.
  showFolds() {
    byId("schema-row").hidden = this.form.elements.form.value !== "schema";
    byId("tool-choice-row").hidden = !this.form.elements.tools.value.trim();
  }

  values() {
    return Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, this.form.elements[name].value]));
  }
}
