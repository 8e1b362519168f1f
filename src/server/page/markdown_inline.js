// Markdown within a line: code, emphasis, links. Gives a tree of plain objects; nothing here touches a page.
//
// A node is a string or {type: "code" | "strong" | "em" | "del" | "link" | "break", ...}. Addresses other than http and https
// stay plain text, so that no link in an answer can run a script.

const DEEPEST = 6;
const ESCAPABLE = /[\\`*_{}[\]()#+\-.!~|<>"'/:]/;
const MARKS = [["***", "both"], ["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const WORD = /[\p{L}\p{N}]/u;

// Returns the address if it is safe to open, otherwise null.
export function safeAddress(text) {
  const address = text.trim();
  return /^https?:\/\/[^\s<>"]+$/i.test(address) ? address : null;
}

export function parseInline(text, depth = 0) {
  const reader = new Reader(text, depth);
  while (reader.at < text.length) reader.step();
  return reader.nodes;
}

class Reader {
  constructor(text, depth) {
    Object.assign(this, { text, depth, at: 0, nodes: [], absent: new Set() });
  }

  add(node, end) {
    const last = this.nodes.length - 1;
    if (typeof node === "string" && typeof this.nodes[last] === "string") this.nodes[last] += node;
    else if (node !== "") this.nodes.push(node);
    this.at = end;
  }

  // Returns the next position of a mark. A missing mark is not searched for again, so that a line takes linear time.
  find(mark, from) {
    if (this.absent.has(mark)) return -1;
    const found = this.text.indexOf(mark, from);
    if (found < 0) this.absent.add(mark);
    return found;
  }

  step() {
    const { text, at } = this, c = text[at];
    if (c === "\\" && at + 1 < text.length && ESCAPABLE.test(text[at + 1])) return this.add(text[at + 1], at + 2);
    if (c === "`" && this.code()) return;
    if (c === "\n") return this.lineBreak();
    if ((c === "[" || (c === "!" && text[at + 1] === "[")) && this.link()) return;
    if (c === "<" && this.angled()) return;
    if (c === "h" && this.bare()) return;
    if ((c === "*" || c === "_" || c === "~") && this.marked()) return;
    this.plain();
  }

  // Adds the text up to the next character that may be markup.
  plain() {
    const next = this.text.slice(this.at + 1, this.at + 4096).search(/[\\`\n[!<h*_~]/);
    const end = next < 0 ? Math.min(this.at + 4096, this.text.length) : this.at + 1 + next;
    this.add(this.text.slice(this.at, end), end);
  }

  code() {
    const fence = /^`+/.exec(this.text.slice(this.at, this.at + 64))[0];
    let end = this.find(fence, this.at + fence.length);
    while (end >= 0 && this.text[end + fence.length] === "`") {  // a longer run of backticks does not end the code
      let past = end + fence.length;
      while (this.text[past] === "`") ++past;
      end = this.find(fence, past);
    }
    if (end < 0) { this.add(fence, this.at + fence.length); return true; }
    const inner = this.text.slice(this.at + fence.length, end).replace(/\n/g, " ");
    this.add({ type: "code", text: /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner }, end + fence.length);
    return true;
  }

  lineBreak() {
    const last = this.nodes.at(-1), hard = typeof last === "string" && this.text.slice(this.at - 2, this.at) === "  ";
    if (hard) this.nodes[this.nodes.length - 1] = last.trimEnd();
    this.add(hard ? { type: "break" } : "\n", this.at + 1);
  }

  link() {
    const open = this.text[this.at] === "!" ? this.at + 1 : this.at;
    const close = this.find("](", open);
    if (close < 0 || close - open > 1000) return false;
    const inner = this.text.slice(open + 1, close);
    if (inner.includes("\n\n") || inner.includes("[")) return false;
    const end = closingBracket(this.text, close + 2);
    if (end < 0) return false;
    const [target] = this.text.slice(close + 2, end).trim().split(/\s+/);
    const address = safeAddress(target);
    if (!address) { this.add(this.text.slice(this.at, end + 1), end + 1); return true; }
    // A picture becomes a link, because this page loads nothing from other servers.
    const children = this.depth < DEEPEST ? parseInline(inner || address, this.depth + 1) : [inner];
    this.add({ type: "link", address, children: children.map(withoutLink) }, end + 1);
    return true;
  }

  angled() {
    const end = this.text.slice(this.at, this.at + 2000).indexOf(">");
    const address = end > 0 ? safeAddress(this.text.slice(this.at + 1, this.at + end)) : null;
    if (!address) return false;
    this.add({ type: "link", address, children: [address] }, this.at + end + 1);
    return true;
  }

  bare() {
    if (this.at > 0 && WORD.test(this.text[this.at - 1])) return false;
    const found = /^https?:\/\/[^\s<>"`*]+/.exec(this.text.slice(this.at, this.at + 2000));
    if (!found) return false;
    let address = found[0].replace(/[.,;:!?'\]]+$/, "");
    if (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
    if (!safeAddress(address)) return false;
    this.add({ type: "link", address, children: [address] }, this.at + address.length);
    return true;
  }

  marked() {
    for (const [mark, type] of MARKS) {
      if (!this.text.startsWith(mark, this.at)) continue;
      if (this.depth < DEEPEST && this.opens(mark)) {
        const end = this.closing(mark);
        if (end >= 0) return this.wrap(mark, type, end);
      }
    }
    const run = /^[*_~]+/.exec(this.text.slice(this.at, this.at + 4096))[0];
    this.add(run, this.at + run.length);
    return true;
  }

  opens(mark) {
    const next = this.text[this.at + mark.length];
    if (next === undefined || /\s/.test(next)) return false;
    return mark[0] !== "_" || this.at === 0 || !WORD.test(this.text[this.at - 1]);
  }

  closing(mark) {
    let end = this.find(mark, this.at + mark.length + 1);
    for (let tries = 0; end >= 0 && tries < 32; ++tries) {
      let past = end;
      while (this.text[past] === mark[0]) ++past;
      const spaced = /\s/.test(this.text[end - 1]), inWord = mark[0] === "_" && WORD.test(this.text[past] ?? " ");
      // In a run longer than the mark, the last characters close. A run of two does not close a mark of one.
      if (!spaced && !inWord && !(mark.length === 1 && past - end === 2)) return past - mark.length;
      end = this.find(mark, past);
    }
    return -1;
  }

  wrap(mark, type, end) {
    const children = parseInline(this.text.slice(this.at + mark.length, end), this.depth + 1);
    this.add(type === "both" ? { type: "strong", children: [{ type: "em", children }] } : { type, children }, end + mark.length);
    return true;
  }
}

const withoutLink = (node) => node.type === "link" ? node.children.join("") : node;

// Returns the position of the bracket that ends an address. The address may have pairs of brackets.
function closingBracket(text, from) {
  for (let at = from, open = 0; at < Math.min(text.length, from + 2000); ++at) {
    if (text[at] === "\n") return -1;
    if (text[at] === "(") ++open;
    if (text[at] === ")" && open-- === 0) return at;
  }
  return -1;
}
