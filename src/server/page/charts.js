// Lines over time, drawn as SVG.

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 320, HEIGHT = 96;

function shape(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Returns the smallest round number (1, 2 or 5 times a power of ten) that is at least `value`.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * (1 - 1e-12));
}

// The same for bytes: a power of two, at least 1 KiB.
export const roundUpBytes = (value) => 2 ** Math.ceil(Math.log2(Math.max(value, 1024)));

// Returns values over time as the `d` of a path; null is a gap. times, span: milliseconds; the last time is at the right edge.
export function pathOf(times, values, span, top) {
  const last = times.at(-1), parts = [];
  let open = false;
  values.forEach((value, i) => {
    if (value === null || !Number.isFinite(value)) { open = false; return; }
    const x = WIDTH * (1 - (last - times[i]) / span), y = HEIGHT - HEIGHT * Math.min(value / top, 1);
    parts.push(`${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`);
    open = true;
  });
  return parts.join("");
}

export class Chart {
  // lines: [{name, className}]; words(value): text of the axis; top: its end, if fixed; otherwise round(largest value).
  constructor(box, { title, lines, words, top, round = roundUp }) {
    Object.assign(this, { lines, words, top, round, title });
    this.svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: "chart" });
    for (const y of [0.5, HEIGHT / 2, HEIGHT - 0.5]) this.svg.append(shape("line", { x1: 0, x2: WIDTH, y1: y, y2: y, class: "grid" }));
    this.paths = lines.map(({ className }) => shape("path", { class: `line ${className}`, fill: "none" }));
    this.svg.append(...this.paths);
    const frame = document.createElement("div");
    frame.className = "chart-frame";
    this.axis = document.createElement("span");
    this.axis.className = "axis";
    this.since = document.createElement("span");
    this.since.className = "axis since";
    frame.append(this.svg, this.axis, this.since);
    box.append(frame);
  }

  // span: milliseconds from the left to the right edge.
  draw(times, series, span) {
    const most = Math.max(0, ...series.flat().filter((value) => value !== null && Number.isFinite(value)));
    const top = this.top ?? this.round(most);
    series.forEach((values, i) => this.paths[i].setAttribute("d", pathOf(times, values, span, top)));
    this.axis.textContent = this.words(top);
    this.since.textContent = `${span / 60_000} min`;
    const now = this.lines.map(({ name }, i) => `${name} ${this.words(series[i].at(-1) ?? 0)}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title}: now ${now}`);
  }
}
