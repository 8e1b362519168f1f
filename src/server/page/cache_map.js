// The map of the cache: a square for each block, or a bar for each answer, in the colours of the requests.

import { bytes, byId, element, fit, setText, withMark } from "./dom.js";
import { sumOf, UNLIMITED, wordsOfPiece } from "./cache_words.js";

const MOST_PIECES = 2000;  // drawn of a store; more would be too slow for a browser
const MOST_FREE = 300;     // free blocks are drawn up to this many squares in all; the rest is a sentence

// Hues of consecutive request numbers differ by the golden angle, so neighbours have different colours.
export const hueOf = (job) => (job * 137.508 % 360).toFixed(1);
export const placeOf = (store, state) => state.stores.at(-1).instance > 0 ? `, instance ${store.instance}` : "";

const inBlocks = (store) => store.strategy.startsWith("paged");

function drawPiece(cell, piece, blocks) {
  const held = piece && piece.users > 0, shared = held && piece.users > 1;
  const name = `piece${blocks ? "" : " row"}${!piece ? " free" : held ? " owned" : " kept"}${shared ? " number" : ""}`;
  const chosen = cell.classList.contains("chosen") ? " chosen" : "";
  if (cell.className !== name + chosen) cell.className = name + chosen;
  cell.style.setProperty("--hue", held ? hueOf(piece.job) : "0");
  cell.dataset.users = shared ? piece.users : "";
  const share = piece ? `${(100 * piece.used_tokens / Math.max(piece.tokens, 1)).toFixed(0)}%` : "0";
  cell.firstElementChild.style[blocks ? "height" : "width"] = share;
}

function drawStore(box, store, room, place) {
  const blocks = inBlocks(store), shown = Math.min(store.pieces.length, MOST_PIECES);
  const free = blocks && store.usage.page_bytes > 0 ? Math.floor(room / store.usage.page_bytes) : 0;
  const drawn = Math.min(free, Math.max(MOST_FREE - shown, 0));
  const [title, map, more] = box.children;
  const tokens = blocks && store.pieces.length ? `; a square is a block of ${store.pieces[0].tokens} tokens` : "";
  title.replaceChildren(element("b", store.strategy), `, ${store.type}${place}: ${bytes(store.usage.allocated_bytes)}` +
    (blocks ? tokens : "; a bar is what one answer holds"));
  const cells = fit(map, shown + drawn, () => withMark("div"));
  box.pieces = store.pieces;
  for (let i = 0; i < cells.length; ++i) drawPiece(cells[i], i < shown ? store.pieces[i] : undefined, blocks);
  const rest = store.pieces.length - shown;
  setText(more, [rest > 0 ? `and ${rest} more` : "", free > drawn ? `and room for ${(free - drawn).toLocaleString("en")} more blocks` : ""]
    .filter(Boolean).join(", "));
  more.hidden = !more.textContent;
}

export class CacheMap {
  constructor() {
    Object.assign(this, { pointed: null, chosen: null });
    const maps = byId("maps");
    maps.addEventListener("pointerover", (event) => {
      this.pointed = event.pointerType === "mouse" ? event.target.closest(".piece") : null;
      this.drawDetail();
    });
    maps.addEventListener("pointerleave", () => { this.pointed = null; this.drawDetail(); });
    maps.addEventListener("click", (event) => {
      const cell = event.target.closest(".piece");
      this.chosen = cell === this.chosen ? null : cell;
      this.drawDetail();
    });
    maps.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    const cells = [...event.target.children], at = cells.indexOf(this.chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: cells.length - 1 }[event.key];
    if (to === undefined || !cells.length) return;
    event.preventDefault();
    this.pointed = null;
    this.chosen = cells[Math.min(Math.max(to, 0), cells.length - 1)];
    this.drawDetail();
  }

  draw(state) {
    const room = state.limit_bytes > UNLIMITED ? 0 : Math.max(state.limit_bytes - sumOf(state, "allocated_bytes"), 0);
    const boxes = fit(byId("maps"), state.stores.length, () => {
      const box = element("div", "", "store"), map = element("div", "", "map");
      map.tabIndex = 0;
      map.setAttribute("role", "group");
      map.setAttribute("aria-label", "Pieces of the cache; arrow keys go from one to the next");
      box.append(element("p"), map, element("p"));
      return box;
    });
    state.stores.forEach((store, i) => {
      drawStore(boxes[i], store, room, placeOf(store, state));
      // Hides the empty stores of strategies that only earlier requests used.
      boxes[i].hidden = i > 0 && !store.pieces.length && store.instance === state.stores[i - 1].instance;
    });
    this.drawDetail();
  }

  // Describes the piece under the pointer, or else the one chosen by a tap or by keys.
  drawDetail() {
    const present = (cell) => cell?.isConnected ? cell : null;
    Object.assign(this, { pointed: present(this.pointed), chosen: present(this.chosen) });
    for (const old of document.querySelectorAll(".chosen")) if (old !== this.chosen) old.classList.remove("chosen");
    this.chosen?.classList.add("chosen");
    const cell = this.pointed ?? this.chosen;
    setText(byId("detail"), !cell ? "Point at a piece, or tap it, to see whose it is."
      : wordsOfPiece(cell.closest(".store").pieces[[...cell.parentElement.children].indexOf(cell)]));
  }
}
