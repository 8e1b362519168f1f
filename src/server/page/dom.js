// Helpers for the document and for formatting numbers. Text of a model or server becomes text nodes only, never markup.

export const byId = (id) => document.getElementById(id);

export function element(name, text = "", className = "") {
  const made = document.createElement(name);
  if (text) made.append(text);
  if (className) made.className = className;
  return made;
}

export function button(text, onClick, { label, className = "small" } = {}) {
  const made = element("button", text, className);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", onClick);
  return made;
}

// Makes an element with a mark that can be coloured, and an empty text node.
export function withMark(name, className = "") {
  const made = element(name, "", className);
  made.append(element("i"), "");
  return made;
}

// Makes the parent have `count` children. Reuses them, so that what the user points at or has selected stays.
export function fit(parent, count, make) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(make());
  return parent.children;
}

// Screen readers announce each write to a live region, so the same text is not written again.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Shows sentences as the items of a list.
export function setSentences(list, sentences) {
  const items = fit(list, sentences.length, () => element("li"));
  sentences.forEach((sentence, i) => setText(items[i], sentence));
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i + 1 < units.length; ++i) n /= 1024;
  return `${n >= 100 || i === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
}

export const count = (n, one, many = `${one}s`) => `${Math.round(n).toLocaleString("en")} ${Math.round(n) === 1 ? one : many}`;
export const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(0)} %` : "–";

export function seconds(n) {
  if (!Number.isFinite(n)) return "–";
  if (n < 0.9995) return `${n < 0.00995 ? (1000 * n).toFixed(1) : (1000 * n).toFixed(0)} ms`;
  return n < 100 ? `${n.toFixed(1)} s` : `${n.toFixed(0)} s`;
}

const copied = new Map();  // buttons that say "Copied", and their timers

// Makes a button that copies what text() returns. Where the clipboard is missing (neither localhost nor TLS), the text is
// copied from a hidden field, which every browser can do.
export function copyButton(text, label) {
  const made = button("Copy", async () => {
    const done = await copyText(text());
    made.textContent = done ? "Copied" : "Not copied";
    clearTimeout(copied.get(made));
    copied.set(made, setTimeout(() => { made.textContent = "Copy"; copied.delete(made); }, 1500));
  }, { label });
  return made;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", "", "unseen");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

export function download(name, text) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
