#include "train/settings/settings.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace kvick::train {
namespace {

constexpr uint64_t kMost = 1 << 24;

// Calls f(name, field) for each field, in the order of the file.
template <typename AnySettings, typename F>
void visit(AnySettings& s, F&& f) {
  f("arch", s.model.arch), f("update", s.model.update), f("address", s.model.address);
  f("read", s.model.read), f("shortest", s.model.shortest), f("longest", s.model.longest);
  f("dim", s.model.dim), f("layers", s.model.layers), f("heads", s.model.heads);
  f("kv-heads", s.model.kv_heads), f("head-dim", s.model.head_dim), f("ffn", s.model.ffn);
  f("vocab", s.model.vocab), f("ctx", s.model.ctx), f("slots", s.model.slots);
  f("context", s.model.context), f("rank", s.model.rank);
  f("budget", s.run.budget), f("alpha", s.run.alpha);
  f("least", s.run.least), f("sinks", s.run.sinks), f("recent", s.run.recent);
  f("rope-base", s.model.rope_base), f("norm-eps", s.model.norm_eps);
  f("task", s.run.task), f("train", s.run.train), f("negatives", s.run.negatives);
  f("pairs", s.run.pairs), f("symbols", s.run.symbols);
  f("batch", s.run.batch), f("steps", s.run.steps), f("warmup", s.run.warmup);
  f("seed", s.run.seed), f("minutes", s.run.minutes), f("lr", s.run.lr);
  f("least-lr", s.run.least_lr), f("weight-decay", s.run.weight_decay), f("beta2", s.run.beta2);
  f("clip", s.run.clip), f("dropout", s.run.dropout), f("precision", s.run.precision);
}

// Settings that were added later. A checkpoint without one of them gets its default.
constexpr const char* kLater[] = {"address", "read",      "shortest", "longest", "context",
                                  "train",   "negatives", "rank",     "budget",  "alpha",
                                  "least",   "sinks",     "recent"};

std::string shown(const std::string& value) { return value; }
std::string shown(uint64_t value) { return std::to_string(value); }
std::string shown(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};  // exact
}

void parse(const std::string& from, std::string& to) { to = from; }
template <typename Number>
void parse(const std::string& from, Number& to) {
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), to);
  if (error != std::errc() || end != from.data() + from.size())
    refuse("the checkpoint's settings hold \"", from, "\" where a number belongs");
}

std::map<std::string, std::string> as_map(const Settings& settings) {
  std::map<std::string, std::string> out;
  visit(settings, [&](const char* name, const auto& field) { out[name] = shown(field); });
  return out;
}

void check_one_of(const char* name, const std::string& value,
                  std::initializer_list<const char*> known) {
  std::string list;
  for (const char* each : known) {
    if (value == each) return;
    list += text_of(list.empty() ? "" : ", ", each);
  }
  refuse("--", name, " is ", value, "; there are ", list);
}

// Checks what the engine requires of a file (docs/reference/bct-format.md, model/core/weights.cc):
// rows of matrices are whole groups of 32 inputs.
void check_shape(const ModelSettings& m) {
  if (m.heads % m.kv_heads != 0)
    refuse("--heads ", m.heads, " is not a multiple of --kv-heads ", m.kv_heads);
  if (m.head_dim % 32 != 0 || m.head_dim == 0 || m.head_dim > 256)
    refuse("--head-dim is ", m.head_dim, ", but must be a multiple of 32 up to 256");
  if (m.dim % 32 != 0) refuse("--dim is ", m.dim, ", but must be a multiple of 32");
  if (m.ffn % 32 != 0) refuse("--ffn is ", m.ffn, ", but must be a multiple of 32");
}

}  // namespace

Settings read_settings(Options& options, Settings before) {
  visit(before, [&](const std::string& name, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const std::string option = "--" + name;
    if (name == "arch" || name == "vocab" || name == "rank") return;
    if constexpr (std::is_same_v<Field, std::string>)
      field = options.text(option, field);
    else if constexpr (std::is_same_v<Field, uint64_t>)
      field = options.count(option, field, 0, name == "seed" ? UINT64_MAX : kMost);
    else
      field = options.number(option, field, 0, 1e9);
  });
  return before;
}

void complete(Settings& settings) {
  ModelSettings& m = settings.model;
  const RunSettings& run = settings.run;
  const std::pair<const char*, uint64_t> positive[] = {
      {"dim", m.dim},       {"layers", m.layers}, {"heads", m.heads},
      {"ctx", m.ctx},       {"slots", m.slots},   {"batch", run.batch},
      {"steps", run.steps}, {"pairs", run.pairs}, {"symbols", run.symbols / 4}};
  for (const auto& [name, value] : positive)
    if (value == 0) refuse("--", name, " must be larger");
  check_one_of("task", run.task, {"text", "mqar", "copy", "answers"});
  check_one_of("train", run.train, {"all", "blocks"});
  check_one_of("update", m.update, {kUpdates[0], kUpdates[1], kUpdates[2], kUpdates[3]});
  check_one_of("address", m.address, {kAddresses[0], kAddresses[1]});
  check_one_of("read", m.read, {kReads[0], kReads[1]});
  for (const double length : {m.shortest, m.longest})
    if (length <= 1)
      refuse("--shortest and --longest must be above 1: a memory of 1 token keeps nothing");
  check_one_of("precision", run.precision, {"auto", "f32", "bf16"});
  if (run.dropout >= 1 || run.beta2 >= 1) refuse("--dropout and --beta2 must be below 1");
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.head_dim == 0) m.head_dim = m.dim / m.heads;
  if (m.rank > 0 && !(run.budget > 0 && run.budget <= 1))
    refuse("--budget is ", run.budget, ", but must be a share of the rows, above 0 and up to 1");
  if (m.context == 0) m.context = m.ctx;
  if (m.ffn == 0) m.ffn = (m.dim * 8 / 3 + 31) / 32 * 32;
  check_shape(m);
}

std::string to_text(const Settings& settings) {
  std::string out;
  visit(settings, [&](const char* name, const auto& field) {
    out += text_of(name, "=", shown(field), "\n");
  });
  return out;
}

Settings settings_from_text(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) lines[line.substr(0, equals)] = line.substr(equals + 1);
  }
  Settings settings;
  visit(settings, [&](const char* name, auto& field) {
    const auto found = lines.find(name);
    const bool is_later =
        std::find(std::begin(kLater), std::end(kLater), std::string_view(name)) != std::end(kLater);
    if (found != lines.end())
      parse(found->second, field);
    else if (!is_later)
      refuse("the checkpoint's settings lack ", name);
  });
  return settings;
}

std::string differing(const Settings& a, const Settings& b) {
  const auto left = as_map(a), right = as_map(b);
  std::string out;
  for (const auto& [name, value] : left)
    if (name != "steps" && name != "minutes" && right.at(name) != value)
      out += text_of(out.empty() ? "--" : ", --", name);
  return out;
}

}  // namespace kvick::train
