// Formats a plan as advice, JSON and text.

#include <algorithm>
#include <fmt/format.h>

#include "cli/commands/plan_ranks.h"
#include "cli/commands/plan_report.h"
#include "cli/options/engine_options.h"
#include "plan/machine/calibration_file.h"

namespace kvick::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view keeps_name(kv::LayerSpec::Keeps keeps) {
  using Keeps = kv::LayerSpec::Keeps;
  switch (keeps) {
    case Keeps::kRows:
      return "rows";
    case Keeps::kLatent:
      return "latent";
    case Keeps::kState:
      return "state";
    case Keeps::kSlots:
      return "slots";
    case Keeps::kNothing:
      break;
  }
  return "nothing";
}

// Returns "rows", "rows, window 512" or "rows, chunks of 8192".
std::string kind_text(const kv::LayerSpec& spec) {
  std::string text(keeps_name(spec.keeps));
  if (spec.window == 0) return text;
  return text + fmt::format(", {} {}", spec.chunked ? "chunks of" : "window", spec.window);
}

std::string dims_text(const kv::LayerSpec& spec) {
  return spec.v_dim == spec.k_dim ? fmt::format("{}", spec.k_dim)
                                  : fmt::format("{}/{}", spec.k_dim, spec.v_dim);
}

std::string giga(double bytes) {
  if (bytes >= 1e12) return fmt::format("{:.2f} TB", bytes / 1e12);
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  return bytes >= 1e6 ? fmt::format("{:.2f} MB", bytes / 1e6)
                      : fmt::format("{:.2f} kB", bytes / 1e3);
}
std::string giga(uint64_t bytes) { return giga(static_cast<double>(bytes)); }

Json groups_json(const PlanReport& report) {
  Json groups = Json::array();
  for (const PlannedGroup& one : report.groups) {
    const kv::LayerSpec& spec = one.group.spec;
    groups.push_back({{"layers", one.group.layers},
                      {"keeps", keeps_name(spec.keeps)},
                      {"kv_heads", spec.kv_heads},
                      {"k_dim", spec.k_dim},
                      {"v_dim", spec.v_dim},
                      {"window", spec.window},
                      {"chunked", spec.chunked},
                      {"token_bytes", one.token_bytes},
                      {"kv_bytes", one.cost.fast_bytes + one.cost.slow_bytes},
                      {"read_bytes_per_token", one.cost.read_bytes_per_token}});
  }
  return groups;
}

std::string groups_text(const PlanReport& report) {
  if (report.groups.size() < 2) return "";
  std::string text = fmt::format("{:<7}{:<24}{:>9}{:>12}{:>14}{:>12}{:>14}\n", "layers", "keeps",
                                 "KV heads", "head dim", "bytes a token", "cache", "read a token");
  for (const PlannedGroup& one : report.groups) {
    const kv::LayerSpec& spec = one.group.spec;
    text += fmt::format("{:<7}{:<24}{:>9}{:>12}{:>14}{:>12}{:>14}\n", one.group.layers.size(),
                        kind_text(spec), spec.kv_heads, dims_text(spec), one.token_bytes,
                        giga(one.cost.fast_bytes), giga(one.cost.read_bytes_per_token));
  }
  return text + "\n";
}

std::string seconds_text(const PlanReport& report) {
  if (!report.unpredicted.empty()) return "\n";
  const plan::TokenSeconds& token = report.ways.front().token;
  return fmt::format(
             "\nlast token: layers {:.2f} ms, their attention to the cache {:.2f} ms, output layer "
             "{:.2f} ms, copies {:.2f} ms\n",
             1e3 * token.layers, 1e3 * token.attention, 1e3 * token.output, 1e3 * token.copies) +
         fmt::format("a prompt of {} tokens: {:.2f} s\n", report.tokens, report.prefill_s);
}

// Returns why the load does not fit.
std::string shortage_text(const PlanReport& report) {
  const uint64_t cache = report.cache_bytes();
  if (!report.tier_shortage.empty()) return report.tier_shortage;
  if (cache > report.kv_memory)
    return fmt::format("the cache takes {}, but --kv-memory allows {}", giga(cache),
                       giga(report.kv_memory));
  return fmt::format("weights and cache take {}, but only {} are available",
                     giga(report.weight_bytes() + cache), giga(report.memory_bytes));
}

}  // namespace

std::vector<std::string> advice_of(const PlanReport& report) {
  std::vector<std::string> advice = report.notes;
  const PlannedWay& asked = report.ways.front();
  if (asked.cost.slow_read_bytes_per_token > 0)
    advice.push_back(fmt::format(
        "a step reads {} from the slower tier, which the prediction leaves out: at 1 GB/s at most "
        "{:.1f} tokens/s",
        giga(asked.cost.slow_read_bytes_per_token),
        report.batch * 1e9 / static_cast<double>(asked.cost.slow_read_bytes_per_token)));
  const uint64_t all = report.weight_bytes() + report.cache_bytes();
  if (all > report.memory_bytes && report.expert_memory == 0 &&
      plan::packed_expert_bytes(report.model) > 0)
    advice.push_back(fmt::format(
        "{} of the weights are experts: --expert-memory keeps those in memory that are used most",
        giga(plan::packed_expert_bytes(report.model))));
  if (!report.fits())
    advice.push_back(fmt::format(
        "{}: there is room for {} tokens per sequence, or for {} sequences of {} tokens",
        shortage_text(report), report.largest_context, report.largest_batch, report.tokens));
  if (!report.unpredicted.empty()) advice.push_back("no speed is predicted: " + report.unpredicted);
  const double all_s = asked.token.all(), share = all_s > 0 ? asked.token.attention / all_s : 0;
  const bool wide =
      report.k_type() != kernels::DType::kQ8 && report.k_type() != kernels::DType::kQ4;
  if (wide && (share > 0.3 || !report.fits()))
    advice.push_back(fmt::format(
        "attention takes {:.0f} % of a token at {} tokens: --kv-type q8 reads {:.0f} % of the "
        "bytes",
        100 * share, report.tokens, report.k_type() == kernels::DType::kF32 ? 27.0 : 53.0));
  for (const PlannedWay& way : report.ways)
    if (way.decode_tok_s > 1.1 * asked.decode_tok_s) {
      advice.push_back(fmt::format("{} decodes {:.1f} tokens/s where {} decodes {:.1f}",
                                   way.spec.name, way.decode_tok_s, asked.spec.name,
                                   asked.decode_tok_s));
      break;
    }
  if (report.others.value_or(0) > plan::kBusyShare)
    advice.push_back(
        fmt::format("other programs used {:.0f} % of the cores during the measurement: run it "
                    "again when the machine is idle",
                    100 * *report.others));
  if (asked.cost.copied_bytes > 0)
    advice.push_back(
        fmt::format("{} copies {} on the way to {} tokens; virtual and paged copy nothing",
                    asked.spec.name, giga(asked.cost.copied_bytes), report.tokens));
  if (report.batch > 1 && asked.spec.name != "paged")
    advice.push_back("sequences whose prompts begin alike share their rows with --kv paged");
  if (report.ranks) advice.push_back(ranks_advice(*report.ranks, report));
  if (advice.empty())
    advice.push_back(
        fmt::format("nothing to change: {} of {} are taken", giga(all), giga(report.memory_bytes)));
  return advice;
}

Json plan_json(const PlanReport& report) {
  const PlannedWay& asked = report.ways.front();
  const auto predicted = [&](double value) {
    return report.unpredicted.empty() ? Json(value) : Json(nullptr);
  };
  const bool limited = report.kv_memory != UINT64_MAX;
  Json ways = Json::array();
  for (const PlannedWay& way : report.ways)
    ways.push_back({{"strategy", kv::spec_text(way.spec)},
                    {"kv_bytes", way.cost.fast_bytes + way.cost.slow_bytes},
                    {"read_bytes_per_token", way.cost.read_bytes_per_token},
                    {"copied_bytes", way.cost.copied_bytes},
                    {"predicted_decode_tok_s", predicted(way.decode_tok_s)}});
  Json plan = {{"model", report.model.config.name},
               {"strategy", kv::spec_text(asked.spec)},
               {"kv_type", engine::kv_type_text(report.kv)},
               {"kv_select", engine::kv_select_text(report.kv)},
               {"tokens", report.tokens},
               {"batch", report.batch},
               {"weight_bytes", report.weight_bytes()},
               {"kv_bytes", asked.cost.fast_bytes + asked.cost.slow_bytes},
               {"fast_bytes", asked.cost.fast_bytes},
               {"slow_bytes", asked.cost.slow_bytes},
               {"step_bytes", report.step_bytes},
               {"read_bytes_per_token", asked.cost.read_bytes_per_token},
               {"slow_read_bytes_per_token", asked.cost.slow_read_bytes_per_token},
               {"copied_bytes", asked.cost.copied_bytes},
               {"bmc",
                {{"T", report.growths},
                 {"r", (report.tokens + report.growths - 1) / report.growths},
                 {"k", report.spec_rows},
                 {"m", report.spec_tokens},
                 {"copy_bytes_s", report.spec_rates.copy_bytes_s},
                 {"growth_s", report.spec_rates.growth_s},
                 {"attention_bytes_s", report.spec_rates.attention_bytes_s}}},
               {"predicted_decode_tok_s", predicted(asked.decode_tok_s)},
               {"predicted_prefill_s", predicted(report.prefill_s)},
               {"token_s",
                {{"layers", predicted(asked.token.layers)},
                 {"attention", predicted(asked.token.attention)},
                 {"output", predicted(asked.token.output)},
                 {"copies", predicted(asked.token.copies)}}},
               {"others_share", plan::share_json(report.others)},
               {"memory_bytes", report.memory_bytes},
               {"kv_memory_bytes", limited ? Json(report.kv_memory) : Json(nullptr)},
               {"fits", report.fits()},
               {"largest_context", report.largest_context},
               {"largest_batch", report.largest_batch},
               {"strategies", ways},
               {"groups", groups_json(report)},
               {"advice", advice_of(report)}};
  if (report.ranks) plan["ranks"] = ranks_json(*report.ranks);
  return plan;
}

std::string plan_text(const PlanReport& report) {
  const PlannedWay& asked = report.ways.front();
  std::string text = fmt::format(
      "{}: {} sequence{} of {} tokens, {} {}{}\n\nweights {}, cache {}{}, of {} memory: {}\n\n",
      report.model.config.name, report.batch, report.batch == 1 ? "" : "s", report.tokens,
      kv::spec_text(asked.spec), engine::kv_type_text(report.kv),
      engine::reads_all(report.kv) ? "" : ", " + engine::kv_select_text(report.kv),
      giga(report.weight_bytes()), giga(asked.cost.fast_bytes),
      report.step_bytes > 0
          ? fmt::format(" and {} while a step reads a prompt", giga(report.step_bytes))
          : "",
      giga(report.memory_bytes), report.fits() ? "fits" : "does not fit");
  text += groups_text(report);
  text += fmt::format("{:<12}{:>12}{:>14}{:>12}{:>14}\n", "strategy", "cache", "read a token",
                      "copied", "decode tok/s");
  for (const PlannedWay& way : report.ways)
    text +=
        fmt::format("{:<12}{:>12}{:>14}{:>12}{:>14}\n", way.spec.name, giga(way.cost.fast_bytes),
                    giga(way.cost.read_bytes_per_token), giga(way.cost.copied_bytes),
                    report.unpredicted.empty() ? fmt::format("{:.1f}", way.decode_tok_s) : "-");
  text += seconds_text(report);
  text += fmt::format("bmc: T = {} growths of r = {} rows are fastest on this machine",
                      report.growths, (report.tokens + report.growths - 1) / report.growths);
  if (report.spec_rows > 1)
    text +=
        fmt::format(", with {} rows and {} tokens a step", report.spec_rows, report.spec_tokens);
  text += "\n";
  text += fmt::format("at most: {} tokens a sequence, or {} sequences\n\n", report.largest_context,
                      report.largest_batch);
  if (report.ranks) text += ranks_text(*report.ranks, report);
  for (const std::string& line : advice_of(report)) text += "* " + line + "\n";
  return text;
}

}  // namespace kvick::cli
