// A minimal DOM, with what the page's modules need to create nodes, for tests without a browser.

class Text {
  constructor(data) { this.data = String(data); }
  get textContent() { return this.data; }
}

class Element {
  constructor(name) {
    Object.assign(this, { tagName: name, childNodes: [], attributes: {}, className: "", listeners: {} });
  }
  append(...nodes) {
    for (const node of nodes) {
      const made = typeof node === "object" ? node : new Text(node);
      made.parent?.childNodes.splice(made.parent.childNodes.indexOf(made), 1);
      made.parent = this;
      this.childNodes.push(made);
    }
  }
  remove() { this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  get lastChild() { return this.childNodes.at(-1); }
  get children() { return this.childNodes.filter((node) => node instanceof Element); }
  get textContent() { return this.childNodes.map((node) => node.textContent).join(""); }
}

export const install = () => {
  globalThis.document = { createElement: (name) => new Element(name), createTextNode: (text) => new Text(text) };
};

// All elements with a tag name in a node's subtree, including the node itself.
export function all(node, name) {
  if (!(node instanceof Element)) return [];
  return [...(node.tagName === name ? [node] : []), ...node.childNodes.flatMap((child) => all(child, name))];
}

// The node as HTML without attributes, for comparisons.
export function outline(node) {
  if (!(node instanceof Element)) return node.data;
  return `<${node.tagName}>${node.childNodes.map(outline).join("")}</${node.tagName}>`;
}
