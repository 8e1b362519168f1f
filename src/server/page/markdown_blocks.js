// Markdown's blocks: headings, lists, tables, code, quotes, paragraphs. Text in, a tree of plain objects out.
//
// Each block has its text as `source`. While an answer grows, blocks with the same source are not drawn again.

const DEEPEST = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const isBlank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;

export function parseBlocks(text) {
  return blocksOf(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) { ++at; continue; }
    const [block, end] = readBlock(lines, at, depth);
    block.source = lines.slice(at, end).join("\n");
    blocks.push(block);
    at = end;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  if (FENCE.test(lines[at])) return readCode(lines, at);
  const heading = HEADING.exec(lines[at]);
  if (heading) return [{ type: "heading", level: heading[1].length, text: heading[2] ?? "" }, at + 1];
  if (RULE.test(lines[at])) return [{ type: "rule" }, at + 1];
  if (depth < DEEPEST) {
    if (QUOTE.test(lines[at])) return readQuote(lines, at, depth);
    if (ITEM.test(lines[at])) return readList(lines, at, depth);
  }
  if (startsTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at);
}

// Code without an end mark goes to the end of the text, as it does while an answer is written.
function readCode(lines, at) {
  const [, fence, info] = FENCE.exec(lines[at]), indent = indentOf(lines[at]);
  const code = [];
  let end = at + 1, closed = false;
  for (; end < lines.length && !closed; ++end) {
    const found = FENCE.exec(lines[end]);
    closed = Boolean(found) && found[1][0] === fence[0] && found[1].length >= fence.length && !found[2].trim();
    if (!closed) code.push(lines[end].slice(Math.min(indent, indentOf(lines[end]))));
  }
  return [{ type: "code", language: info.trim().split(/\s+/)[0] ?? "", text: code.join("\n"), closed }, end];
}

function readQuote(lines, at, depth) {
  const inner = [];
  let end = at;
  for (; end < lines.length && !isBlank(lines[end]); ++end) {
    const found = QUOTE.exec(lines[end]);
    if (!found && begins(lines, end)) break;
    inner.push(found ? found[1] : lines[end]);
  }
  return [{ type: "quote", blocks: blocksOf(inner, depth + 1) }, end];
}

const isOrdered = (item) => /\d/.test(item[2]);

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]), ordered = isOrdered(first), indent = first[1].length;
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (!item || isOrdered(item) !== ordered || item[1].length > indent + 1 || item[1].length < indent - 1 || RULE.test(lines[end])) break;
    const [inner, next] = itemLines(lines, end, item);
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    items.push({ blocks: blocksOf(inner, depth + 1), done: task ? task[1] !== " " : null });
    end = next;
    // Blank lines between items belong to the list; those after the last item do not.
    let past = end;
    while (past < lines.length && isBlank(lines[past])) ++past;
    if (past === end) continue;
    if (past < lines.length && ITEM.test(lines[past])) end = past;
    else break;
  }
  return [{ type: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items }, end];
}

// Returns the lines of one item without its mark, and the line after the item.
function itemLines(lines, at, item) {
  const inner = [item[3] ?? ""], least = item[1].length + 2, full = item[1].length + item[2].length + 1;
  let end = at + 1;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    if (isBlank(line)) {
      if (end + 1 >= lines.length || isBlank(lines[end + 1]) || indentOf(lines[end + 1]) < least) break;
      inner.push("");
    } else if (indentOf(line) >= least) {
      inner.push(line.slice(Math.min(full, indentOf(line))));
    } else if (begins(lines, end)) {
      break;
    } else {
      inner.push(line.trim());  // continues the paragraph
    }
  }
  return [inner, end];
}

function cellsOf(line) {
  const cells = [];
  let cell = "";
  const text = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  for (let i = 0, code = false; i < text.length; ++i) {
    if (text[i] === "\\" && text[i + 1] === "|") { cell += "|"; ++i; continue; }
    if (text[i] === "`") code = !code;
    if (text[i] === "|" && !code) { cells.push(cell.trim()); cell = ""; } else cell += text[i];
  }
  return [...cells, cell.trim()];
}

const startsTable = (lines, at) => lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") &&
  DIVIDER.test(lines[at + 1]) && cellsOf(lines[at]).length === cellsOf(lines[at + 1]).length;

function readTable(lines, at) {
  const head = cellsOf(lines[at]);
  const align = cellsOf(lines[at + 1]).map((cell) => cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "start");
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|") && !isBlank(lines[end]); ++end) {
    const cells = cellsOf(lines[end]).slice(0, head.length);
    while (cells.length < head.length) cells.push("");
    rows.push(cells);
  }
  return [{ type: "table", head, align, rows }, end];
}

// Returns whether a paragraph ends before this line.
const begins = (lines, at) => FENCE.test(lines[at]) || HEADING.test(lines[at]) || RULE.test(lines[at]) || QUOTE.test(lines[at]) ||
  (ITEM.test(lines[at]) && !isBlank(lines[at].replace(ITEM, "$3"))) || startsTable(lines, at);

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !begins(lines, end)) ++end;
  return [{ type: "paragraph", text: lines.slice(at, end).map((line) => line.trimStart()).join("\n") }, end];
}
