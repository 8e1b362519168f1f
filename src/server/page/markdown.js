// Shows Markdown as nodes of the page. A model's text becomes text nodes only, so it cannot add markup.

import { copyButton, element } from "./dom.js";
import { parseBlocks } from "./markdown_blocks.js";
import { parseInline } from "./markdown_inline.js";

const TAGS = { strong: "strong", em: "em", del: "del" };

function inlineNode(node) {
  if (typeof node === "string") return document.createTextNode(node);
  if (node.type === "code") return element("code", node.text);
  if (node.type === "break") return element("br");
  const made = element(node.type === "link" ? "a" : TAGS[node.type]);
  made.append(...node.children.map(inlineNode));
  if (node.type === "link") {
    made.href = node.address;
    made.target = "_blank";
    made.rel = "noopener noreferrer";
  }
  return made;
}

function inline(name, text) {
  const made = element(name);
  made.append(...parseInline(text).map(inlineNode));
  return made;
}

// Makes a box of code with its language and a button that copies it.
export function codeBlock(text, language) {
  const box = element("div", "", "code"), bar = element("div", "", "code-bar"), pre = element("pre");
  pre.append(element("code", text));
  pre.tabIndex = 0;  // so that keys can scroll it sideways
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
  bar.append(element("span", language || "text"), copyButton(() => text, "Copy the code"));
  box.append(bar, pre);
  return box;
}

function listNode(block) {
  const list = element(block.ordered ? "ol" : "ul");
  if (block.ordered && block.start !== 1) list.start = block.start;
  for (const item of block.items) {
    const row = element("li");
    if (item.done !== null) row.append(item.done ? "☑ " : "☐ ");
    for (const inner of item.blocks) {
      // The text of an item is on the line of its mark, without the margins of a paragraph.
      if (inner.type === "paragraph") row.append(...inline("span", inner.text).childNodes);
      else row.append(blockNode(inner));
      if (inner.type === "paragraph" && inner !== item.blocks.at(-1) && item.blocks[item.blocks.indexOf(inner) + 1].type === "paragraph")
        row.append(element("br"));
    }
    list.append(row);
  }
  return list;
}

function tableNode(block) {
  const box = element("div", "", "table-box"), table = element("table"), head = element("thead"), body = element("tbody");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Table");
  const row = (name, cells) => {
    const made = element("tr");
    cells.forEach((cell, i) => {
      const one = inline(name, cell);
      one.className = block.align[i] ?? "start";
      made.append(one);
    });
    return made;
  };
  head.append(row("th", block.head));
  body.append(...block.rows.map((cells) => row("td", cells)));
  table.append(head, body);
  box.append(table);
  return box;
}

export function blockNode(block) {
  switch (block.type) {
    case "heading": return inline(`h${block.shown}`, block.text);
    case "code": return codeBlock(block.text, block.language);
    case "rule": return element("hr");
    case "list": return listNode(block);
    case "table": return tableNode(block);
    case "quote": {
      const quote = element("blockquote");
      quote.append(...block.blocks.map(blockNode));
      return quote;
    }
    default: return inline("p", block.text);
  }
}

// The page itself uses the first two levels. No heading is more than one level below the one before it, because users who
// navigate by headings would look for the missing levels.
function levelHeadings(blocks, before = 2) {
  for (const block of blocks) {
    if (block.type === "heading") before = block.shown = Math.min(block.level + 2, before + 1, 6);
    for (const inner of [block, ...(block.items ?? [])]) before = levelHeadings(inner.blocks ?? [], before);
  }
  return before;
}

const shown = new WeakMap();  // from each box to the sources of the blocks that it shows

// Shows text in a box. Only blocks that changed are made again, so that drawing a long answer does not get slower with its
// length, and what the user has selected stays selected.
export function showMarkdown(box, text) {
  const blocks = parseBlocks(text), before = shown.get(box) ?? [];
  levelHeadings(blocks);
  let same = 0;
  while (same < blocks.length && same < before.length && blocks[same].source === before[same]) ++same;
  while (box.childNodes.length > same) box.lastChild.remove();
  box.append(...blocks.slice(same).map(blockNode));
  shown.set(box, blocks.map((block) => block.source));
}
