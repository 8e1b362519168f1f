// Reads Prometheus' text format and computes rates and quantiles from samples of counters. Does not use the document.

// The label of a server with several models. The page shows the sums over them.
const MODEL_LABEL = /\{model="(?:[^"\\]|\\.)*",?/;

// Returns the values of lines "name{labels} value" by `name{labels}`.
export function parseMetrics(text) {
  const all = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const cut = line.lastIndexOf(" ");
    const name = line.slice(0, cut), value = Number(line.slice(cut + 1));
    if (!MODEL_LABEL.test(name)) {
      all.set(name, value);
      continue;
    }
    const key = name.replace(MODEL_LABEL, "{").replace("{}", "");
    all.set(key, (all.get(key) ?? 0) + value);
  }
  return all;
}

export const reader = (metrics) => (name) => metrics.get(name) ?? 0;

// Returns the samples of a name by one of its labels: {label: value}.
export function byLabel(metrics, name, label) {
  const found = {};
  for (const [key, value] of metrics) {
    if (!key.startsWith(`${name}{`)) continue;
    const match = new RegExp(`[{,]${label}="([^"]*)"`).exec(key);
    if (match) found[match[1]] = value;
  }
  return found;
}

// Samples {now (milliseconds), metrics} of the last `keep` milliseconds.
export class History {
  constructor(keep) {
    this.keep = keep;
    this.looks = [];
  }

  // Adds a sample. If the counter has become smaller, the server was restarted: earlier samples are removed.
  add(now, metrics, counter = "kvick_http_requests_total") {
    const last = this.looks.at(-1);
    const restarted = Boolean(last) && (metrics.get(counter) ?? 0) < (last.metrics.get(counter) ?? 0);
    if (restarted) this.looks = [];
    this.looks.push({ now, metrics });
    while (this.looks[0].now < now - this.keep) this.looks.shift();
    return restarted;
  }

  // Returns the earliest sample that is no older than `milliseconds`, and the last one.
  ends(milliseconds) {
    const last = this.looks.at(-1);
    return [this.looks.find((look) => look.now >= last.now - milliseconds), last];
  }

  // An unloaded model's counts disappear from the sum, so a difference below 0 counts as 0.
  difference(name, milliseconds) {
    const [first, last] = this.ends(milliseconds);
    return Math.max((last.metrics.get(name) ?? 0) - (first.metrics.get(name) ?? 0), 0);
  }

  // Returns the rate per second; null before there are two samples.
  rate(name, milliseconds) {
    const [first, last] = this.ends(milliseconds);
    return last.now > first.now ? 1000 * this.difference(name, milliseconds) / (last.now - first.now) : null;
  }

  // Returns a quantile of what a histogram counted in this time, interpolated within a bucket; null if it counted nothing.
  quantile(name, q, milliseconds) {
    const [first, last] = this.ends(milliseconds);
    const before = buckets(first.metrics, name), after = buckets(last.metrics, name);
    return quantileOf(after.map(([bound, n], i) => [bound, n - (first === last ? 0 : before[i]?.[1] ?? 0)]), q);
  }
}

// Returns [bound, number at or below it], sorted by bound.
function buckets(metrics, name) {
  return Object.entries(byLabel(metrics, `${name}_bucket`, "le"))
    .map(([bound, n]) => [bound === "+Inf" ? Infinity : Number(bound), n]).sort((a, b) => a[0] - b[0]);
}

export function quantileOf(counts, q) {
  const all = counts.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  let below = 0, from = 0;
  for (const [bound, n] of counts) {
    if (n >= q * all && n > below) {
      if (bound === Infinity) return from;  // above the last finite bound; how far is not known
      return from + (bound - from) * (q * all - below) / (n - below);
    }
    below = n;
    from = bound;
  }
  return from;
}
