// The page at /operator, updated once a second while it is visible. It keeps only what it shows.

import { getJson, getText, sentenceOf, watchKeyDialog } from "./api.js";
import { Chart } from "./charts.js";
import { bytes, byId, element, fit, setSentences, setText, withMark } from "./dom.js";
import { History, parseMetrics } from "./metrics.js";
import { CHARTS, groups, tables, warnings, WINDOW_MS } from "./operator_data.js";
import { setTheme, theme } from "./theme.js";

const PAUSE_MS = 1000, PAUSE_AFTER_ERROR_MS = 3000;
const SPANS_MS = [60_000, 120_000, 300_000];  // of the charts; they start with the shortest
const history = new History(WINDOW_MS);
const times = [];
const charts = CHARTS.map(makeChart);

function makeChart(kind) {
  const box = element("section", "", "panel"), legend = element("p", "", "chart-legend");
  box.append(element("h2", kind.title), legend);
  const marks = kind.lines.map(({ className }) => {
    const mark = withMark("span");
    mark.firstChild.className = className;
    return mark;
  });
  legend.append(...marks);
  const chart = new Chart(box, kind);
  byId("charts").append(box);
  return { ...kind, chart, marks, series: kind.lines.map(() => []) };
}

function drawCharts() {
  const now = history.looks.at(-1).now;
  times.push(now);
  for (const one of charts) one.lines.forEach((line, i) => one.series[i].push(line.value(history)));
  const longest = SPANS_MS.at(-1), span = SPANS_MS.find((one) => one >= now - times[0]) ?? longest;
  while (times[0] < now - longest) {
    times.shift();
    for (const one of charts) for (const values of one.series) values.shift();
  }
  for (const { chart, lines, marks, series, words } of charts) {
    chart.draw(times, series, span);
    lines.forEach(({ name }, i) => {
      const value = series[i].at(-1);
      marks[i].replaceChildren(marks[i].firstChild, `${name} ${value === null ? "–" : words(value)}`);
    });
  }
}

function drawTables() {
  const all = tables(history);
  const boxes = fit(byId("tables"), all.length, () => {
    const box = element("section", "", "panel"), table = element("table");
    table.append(element("tbody"));
    box.append(element("h2"), table);
    return box;
  });
  all.forEach(([title, rows], i) => {
    setText(boxes[i].firstChild, title);
    const lines = fit(boxes[i].querySelector("tbody"), rows.length, () => {
      const row = element("tr"), name = element("th");
      name.scope = "row";
      row.append(name, element("td", "", "n"));
      return row;
    });
    rows.forEach(([name, value], k) => { setText(lines[k].firstChild, name); setText(lines[k].lastChild, value); });
  });
}

function drawGroups(state) {
  const all = groups(state), several = all.some((one) => one.instance > 0);
  const rows = fit(byId("groups").tBodies[0], all.length, () => {
    const row = element("tr"), name = element("th");
    name.scope = "row";
    row.append(name, ...Array.from({ length: 8 }, () => element("td", "", "n")));
    return row;
  });
  all.forEach((one, i) => {
    const words = [several ? `${one.name}, instance ${one.instance}` : one.name, one.sequences, bytes(one.used), bytes(one.shared), bytes(one.cached),
      bytes(one.empty), bytes(one.slow), bytes(one.evicted), one.lost === null ? "–" : `${(100 * one.lost).toFixed(1)} %`];
    words.forEach((text, k) => setText(rows[i].children[k], String(text)));
  });
}

async function look() {
  const [text, state] = await Promise.all([getText("metrics"), getJson("kv")]);
  if (history.add(performance.now(), parseMetrics(text))) {
    times.length = 0;  // the server was restarted
    for (const one of charts) for (const values of one.series) values.length = 0;
  }
  drawCharts();
  drawTables();
  drawGroups(state);
  const wrong = warnings(history);
  setSentences(byId("warnings"), wrong);
  byId("well").hidden = wrong.length > 0;
}

async function nameServer() {
  try {
    const info = await getJson("server_info");
    setText(byId("model"), `${info.served_model_name}, ${info.context_length.toLocaleString("en")} tokens of context, kvick ${info.version}`);
  } catch {
    setTimeout(nameServer, PAUSE_AFTER_ERROR_MS);
  }
}

async function watch() {
  let pause = PAUSE_MS;
  try {
    if (!document.hidden) await look();
    setText(byId("status"), "");
  } catch (error) {
    pause = PAUSE_AFTER_ERROR_MS;
    setText(byId("status"), sentenceOf(error));
    byId("well").hidden = true;
  }
  setTimeout(watch, pause);
}

watchKeyDialog();
byId("theme").value = theme();
byId("theme").addEventListener("change", () => setTheme(byId("theme").value));
nameServer();
watch();
