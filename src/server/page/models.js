// The choice of the model or adapter (the API's `model`), if the server has several.

import { getJson } from "./api.js";
import { byId, element } from "./dom.js";

const NAME = "kvick.model", RETRY_MS = 2000;

// Returns the name of an entry of /v1/models. An adapter's names its model too.
export const nameOf = ({ id, parent }) => parent ? `${id} (adapts ${parent})` : id;

// Returns the earlier choice if the server still has it, otherwise the server's first model.
export const chosenOf = (models, before) => models.some(({ id }) => id === before) ? before : models[0].id;

export class Models {
  constructor(storage) {
    this.storage = storage;
    byId("models").addEventListener("change", () => this.keep(byId("models").value));
    this.load();
  }

  // Returns the `model` of a request; undefined if there is no choice.
  chosen() { return byId("models").value || undefined; }

  before() {
    try { return this.storage.getItem(NAME) ?? ""; } catch { return ""; }
  }

  keep(name) {
    try { this.storage.setItem(NAME, name); } catch { /* lost with the page */ }
  }

  async load() {
    try {
      this.show((await getJson("v1/models")).data);
    } catch {
      setTimeout(() => this.load(), RETRY_MS);  // the view of the cache shows the error
    }
  }

  show(models) {
    const several = models.length > 1;
    byId("model").textContent = several ? "" : models[0].id;
    byId("models").hidden = !several;
    if (!several) return;
    byId("models").replaceChildren(...models.map((model) => {
      const option = element("option", nameOf(model));
      option.value = model.id;
      return option;
    }));
    byId("models").value = chosenOf(models, this.before());
  }
}
