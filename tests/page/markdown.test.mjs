import assert from "node:assert/strict";
import test from "node:test";

import { all, install, outline } from "./fake_document.mjs";
import { showMarkdown } from "../../src/server/page/markdown.js";
import { parseBlocks } from "../../src/server/page/markdown_blocks.js";
import { parseInline, safeAddress } from "../../src/server/page/markdown_inline.js";

install();
const draw = (text, box = document.createElement("div")) => { showMarkdown(box, text); return box; };
const html = (text) => draw(text).childNodes.map(outline).join("");

test("emphasis, code and links become elements", () => {
  assert.equal(html("a **b** *c* __d__ _e_ ~~f~~ `g*h*` ***i***"),
    "<p>a <strong>b</strong> <em>c</em> <strong>d</strong> <em>e</em> <del>f</del> <code>g*h*</code> <strong><em>i</em></strong></p>");
  const [link] = all(draw("see [the **page**](https://example.org/a_(b)?x=1)."), "a");
  assert.equal(link.href, "https://example.org/a_(b)?x=1");
  assert.match(link.rel, /noopener/);
  assert.equal(outline(link), "<a>the <strong>page</strong></a>");
});

test("characters that are not markup are unchanged", () => {
  for (const text of ["2 * 3 * 4", "snake_case_name", "a ** b", "*open", "`open", "[x](", "[x] (y)", "a < b > c", "5 ~ 6", "**", "_"])
    assert.equal(draw(text).textContent, text);
  assert.equal(draw("\\*not\\*").textContent, "*not*");
});

test("only http and https addresses become links", () => {
  for (const address of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "//example.org", "/metrics", "file:///etc/passwd",
    " javascript:alert(1)", "java\tscript:alert(1)", "vbscript:x", "blob:x"]) {
    assert.equal(safeAddress(address), null, address);
    for (const text of [`[x](${address})`, `<${address}>`, `![x](${address})`]) assert.equal(all(draw(text), "a").length, 0, text);
  }
});

test("HTML in an answer becomes text, and pictures become links", () => {
  const box = draw("<script>x()</script> <img src=x onerror=y()>\n\n![cat](https://example.org/cat.png)");
  assert.equal(all(box, "script").length + all(box, "img").length, 0);
  assert.match(box.textContent, /<script>x\(\)<\/script> <img src=x onerror=y\(\)>/);
  assert.equal(all(box, "a")[0].href, "https://example.org/cat.png");
});

test("bare addresses end before punctuation", () => {
  const [first, second] = all(draw("See https://example.org/x, and (https://example.org/y)."), "a");
  assert.deepEqual([first.href, second.href], ["https://example.org/x", "https://example.org/y"]);
});

test("code has its language, its unchanged text, and a copy button", () => {
  const text = "if a < b:\n\n    **x**";
  for (const fence of ["```", "~~~~"]) {
    const [box] = draw(`${fence}python\n${text}\n${fence}`).children;
    const [bar, pre] = box.children;
    assert.equal(bar.children[0].textContent, "python");
    assert.equal(bar.children[1].attributes["aria-label"], "Copy the code");
    assert.equal(pre.textContent, text);
  }
});

test("code that is not closed yet is shown as code", () => {
  const [block] = parseBlocks("```js\nlet a;");
  assert.deepEqual([block.type, block.text, block.closed], ["code", "let a;", false]);
});

test("lists nest, count and hold code", () => {
  assert.equal(html("3. a\n4. b\n   - c\n   - d\n5. e"), "<ol><li>a</li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ol>");
  assert.equal(draw("3. a").children[0].start, 3);
  assert.equal(all(draw("- a\n  ```\n  code\n  ```\n- b"), "pre")[0].textContent, "code");
  assert.equal(html("- a\n\n- b"), "<ul><li>a</li><li>b</li></ul>");
  assert.equal(html("- [x] a\n- [ ] b"), "<ul><li>☑ a</li><li>☐ b</li></ul>");
  assert.equal(html("text\n- a"), "<p>text</p><ul><li>a</li></ul>");
  assert.equal(html("- a\n\ntext"), "<ul><li>a</li></ul><p>text</p>");
});

test("tables have headers, alignment and the same number of cells in each row", () => {
  const [box] = draw("| a | b |\n|---|--:|\n| `x|y` | 1 | 2 |\n| only |").children;
  assert.equal(outline(box.children[0]), "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>" +
    "<tr><td><code>x|y</code></td><td>1</td></tr><tr><td>only</td><td></td></tr></tbody></table>");
  assert.deepEqual(all(box, "th").map((cell) => cell.className), ["start", "end"]);
});

test("headings begin below the page's own level, quotes contain blocks, rules are drawn", () => {
  assert.equal(html("# a\n###### b\n## c\n> c\n> - d\n\n---"), "<h3>a</h3><h4>b</h4><h4>c</h4><blockquote><p>c</p><ul><li>d</li></ul></blockquote><hr></hr>");
});

test("a growing line keeps the blocks before it", () => {
  const box = draw("one\n\ntwo");
  const [first, second] = box.childNodes;
  draw("one\n\ntwo and more\n\n- three", box);
  assert.equal(box.childNodes[0], first);
  assert.notEqual(box.childNodes[1], second);
  assert.equal(box.textContent, "onetwo and morethree");
});

test("drawing a text in parts gives the same result as drawing it at once", () => {
  const text = "# H\n\na **b _c_** [d](https://e.org)\n\n1. x\n   - y\n\n```py\nz\n```\n\n| p | q |\n|---|---|\n| r | s |\n\n> t\n";
  const box = document.createElement("div");
  for (let end = 0; end <= text.length; ++end) draw(text.slice(0, end), box);
  assert.equal(box.childNodes.map(outline).join(""), html(text));
});

test("every text takes linear time and a limited stack", () => {
  const n = 20_000;
  for (const part of ["*a ", "**a ", "_", "`", "`` ` ", "[", "[a](", "![", "<", "> ", ">", "- ", "  - a\n", "\\", "|", "|a|\n|-|\n", "~~", "https://", "***a** ",
    "\n\n", "# ", "*a* ", "1. ", "```\n"]) {
    const text = part.repeat(n), visited = parseBlocks(text);
    assert.ok(visited.length <= text.length + 1);
    parseInline(text);
  }
});
