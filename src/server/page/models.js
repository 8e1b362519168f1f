// Which model answers, where the server has several, or has adapters (the API's `model`).

import { getJson } from "./api.js";
import { byId, element } from "./dom.js";

const NAME = "kvick.model", RETRY_MS = 2000;

// The name of an entry of /v1/models; an adapter says what it adapts.
export const nameOf = ({ id, parent }) => parent ? `${id} (adapts ${parent})` : id;

// The one that was chosen before, if the server still has it; else its first.
export const chosenOf = (models, before) => models.some(({ id }) => id === before) ? before : models[0].id;

export class Models {
  constructor(storage) {
    this.storage = storage;
    byId("models").addEventListener("change", () => this.keep(byId("models").value));
    this.load();
  }

  // For a request; undefined where there is nothing to choose.
  chosen() { return byId("models").value || undefined; }

  before() {
    try { return this.storage.getItem(NAME) ?? ""; } catch { return ""; }
  }

  keep(name) {
    try { this.storage.setItem(NAME, name); } catch { /* it lasts as long as the page */ }
  }

  async load() {
    try {
      this.show((await getJson("v1/models")).data);
    } catch {
      setTimeout(() => this.load(), RETRY_MS);  // the cache's view says what is wrong
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
