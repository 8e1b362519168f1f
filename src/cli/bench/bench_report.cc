#include "cli/bench/bench_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/memory.h"
#include "cli/options/engine_options.h"
#include "engine/session/session.h"
#include "model/core/seen_rows.h"
#include "plan/machine/calibration_file.h"

namespace kvick::cli {
namespace {

using engine::Measurement;
using engine::Phase;

// Returns the first measurement of a phase, or null.
const Measurement* first(const BenchReport& report, Phase phase) {
  for (const BenchResult& result : report.results)
    if (result.measured.what.phase == phase) return &result.measured;
  return nullptr;
}

nlohmann::ordered_json usage_json(const kv::Usage& usage) {
  return {{"used_bytes", usage.used_bytes},
          {"allocated_bytes", usage.allocated_bytes},
          {"wasted_bytes", usage.wasted_bytes},
          {"shared_bytes", usage.shared_bytes},
          {"cached_bytes", usage.cached_bytes},
          {"copied_bytes", usage.copied_bytes},
          {"page_bytes", usage.page_bytes},
          {"fallbacks", usage.fallbacks},
          {"slow_bytes", usage.slow_bytes},
          {"slow_read_bytes", usage.slow_read_bytes},
          {"slow_written_bytes", usage.slow_written_bytes}};
}

nlohmann::ordered_json roofline_json(const BenchResult& result) {
  const double seconds = result.seconds();
  return {{"bytes", static_cast<uint64_t>(result.work.bytes)},
          {"ops", static_cast<uint64_t>(result.work.ops())},
          {"bytes_s", result.work.bytes / seconds},
          {"ops_s", result.work.ops() / seconds},
          {"memory_s", result.bound.memory_s},
          {"compute_s", result.bound.compute_s},
          {"measured_s", seconds},
          {"bound_by", result.bound.by_memory() ? "memory" : "compute"},
          {"fraction", result.roofline()}};
}

nlohmann::ordered_json result_json(const BenchResult& result) {
  const Measurement& measured = result.measured;
  return {{"phase", engine::phase_name(measured.what.phase)},
          {"tokens", measured.what.tokens},
          {"depth", measured.what.depth},
          {"parallel", measured.what.parallel},
          {"tok_s", result.tok_s()},
          {"spread", engine::spread(measured.tok_s)},
          {"kv", usage_json(measured.usage)},
          {"roofline", roofline_json(result)}};
}

std::string result_text(const BenchResult& result) {
  const engine::Case& what = result.measured.what;
  const double giga =
      (result.bound.by_memory() ? result.work.bytes : result.work.ops()) / result.seconds() / 1e9;
  return fmt::format("{:<16}{:>8}{:>10}{:>12.1f}{:>8.1f} %{:>10.1f} {:<5}{:>9.1f} %\n",
                     fmt::format("{} {}", engine::phase_name(what.phase), what.tokens), what.depth,
                     what.parallel, result.tok_s(), 100 * engine::spread(result.measured.tok_s),
                     giga, result.bound.by_memory() ? "GB/s" : "GOP/s", 100 * result.roofline());
}

// Returns whether some weights are multiplied by activations rounded to bfloat16.
bool rounds(const engine::Engine& engine) {
  const model::Weights& weights = engine.model().weights();
  return weights.layers.bf16 + weights.experts.bf16 + weights.output.bf16 > 0;
}

nlohmann::ordered_json attention_json(const engine::Engine& engine) {
  if (engine.library() == nullptr) return {{"kind", "fused"}};
  const auto compiled = engine.library()->compiled();
  return {{"kind", "bmm"}, {"compiled_shapes", compiled.shapes}, {"compile_s", compiled.seconds}};
}

std::string attention_text(const engine::Engine& engine) {
  if (engine.library() == nullptr) return "";
  const auto compiled = engine.library()->compiled();
  return fmt::format("attention by bmm: {} shapes compiled in {:.3f} s, in the times above\n",
                     compiled.shapes, compiled.seconds);
}

std::string machine_text(const plan::Calibration& machine) {
  std::string text = "machine at most:";
  for (const plan::ReadSpeed& speed : machine.read)
    text += fmt::format(" {:.1f} GB/s of {} MiB,", speed.bytes_s / 1e9, speed.bytes >> 20);
  text += fmt::format(" {:.0f} GOP/s of 8 bits, {:.0f} GOP/s of float32", machine.int8_ops_s / 1e9,
                      machine.f32_ops_s / 1e9);
  if (machine.bf16_ops_s > 0)
    text += fmt::format(", {:.0f} GOP/s of bfloat16", machine.bf16_ops_s / 1e9);
  if (machine.tile_ops_s > 0)
    text += fmt::format(", {:.0f} GOP/s of bfloat16 on tiles", machine.tile_ops_s / 1e9);
  return text + "\n  " + plan::moment_text(machine.moment) + "\n";
}

std::string others_text(const BenchReport& report) {
  if (report.others.value_or(0) <= plan::kBusyShare) return "";
  return fmt::format(
      "other programs used {:.0f} % of the cores during the measurement: run it again when the "
      "machine is idle\n",
      100 * *report.others);
}

std::string experts_text(const model::Model& model) {
  const auto experts = model.expert_stats();
  if (!experts) return "";
  const auto gb = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  return fmt::format(
      "experts: {} of {} in memory ({:.2f} of {:.2f} GB), {:.1f} % of uses found there, {:.2f} GB "
      "read\n",
      experts->resident, experts->all, gb(experts->resident_bytes), gb(experts->all_bytes),
      100 * experts->hit_rate(), gb(experts->read_bytes));
}

nlohmann::ordered_json experts_json(const model::Model& model) {
  const auto experts = model.expert_stats();
  if (!experts) return nullptr;
  return {{"limit_bytes", experts->limit_bytes},
          {"bytes", experts->resident_bytes},
          {"all_bytes", experts->all_bytes},
          {"resident", experts->resident},
          {"all", experts->all},
          {"hits", experts->hits},
          {"misses", experts->misses},
          {"read_bytes", experts->read_bytes}};
}

std::string memory_text(const BenchReport& report) {
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const auto largest = std::max_element(
      report.results.begin(), report.results.end(), [](const BenchResult& a, const BenchResult& b) {
        return a.measured.usage.allocated_bytes < b.measured.usage.allocated_bytes;
      });
  const kv::Usage& usage = largest->measured.usage;
  return fmt::format(
             "cache{}: {:.2f} MiB used, {:.2f} MiB allocated, {:.2f} MiB wasted, {:.2f} MiB "
             "copied\n",
             report.results.size() > 1 ? " at its largest" : "", mib(usage.used_bytes),
             mib(usage.allocated_bytes), mib(usage.wasted_bytes), mib(usage.copied_bytes)) +
         fmt::format("peak memory: {:.1f} MiB (weights {:.1f} MiB, file {:.1f} MiB)\n",
                     mib(report.peak_rss_bytes), mib(report.engine.model().weight_bytes()),
                     mib(report.engine.file_bytes())) +
         experts_text(report.engine.model());
}

}  // namespace

double BenchResult::least_seconds() const {
  const double fastest = *std::max_element(measured.tok_s.begin(), measured.tok_s.end());
  return static_cast<double>(measured.what.all_tokens()) / fastest;
}

BenchResult against_roofline(const engine::Engine& engine, const engine::KvOptions& kv,
                             const plan::Calibration& machine, Measurement measured) {
  const model::Model& model = engine.model();
  const plan::CacheReads cache = {
      .seen_bytes =
          [&](uint32_t tokens) {
            return model::seen_bytes(model.config(), {.k = *kv.k_type, .v = *kv.v_type}, tokens);
          },
      .bytes =
          [&](uint32_t tokens) {
            // Cannot fail: the measurement's store took these options and this number of tokens.
            return engine.cost(kv, {.tokens = tokens, .sequences = 1}).value().read_bytes_per_token;
          },
      .all_rows = kv.aging.has_value()};
  const engine::Case& what = measured.what;
  BenchResult result;
  result.work = what.phase == Phase::kPrefill
                    ? plan::prefill_work(model.config(), model.weights(), cache,
                                         {.depth = what.depth,
                                          .tokens = what.tokens,
                                          .chunk = engine::Session::kPrefillChunk,
                                          .role = engine.prompt_role(kv)})
                    : plan::decode_work(
                          model.config(), model.weights(), cache,
                          {.depth = what.depth, .tokens = what.tokens, .parallel = what.parallel});
  result.bound = plan::bound_of(result.work, machine);
  result.measured = std::move(measured);
  return result;
}

bool raise_to(std::vector<BenchResult>& results, plan::Calibration& machine) {
  bool raised = false;
  for (const BenchResult& result : results)
    raised |= plan::raise_limits(result.work, result.least_seconds(), machine);
  if (!raised) return false;
  machine.moment.raised_at = base::unix_seconds();
  for (BenchResult& result : results) result.bound = plan::bound_of(result.work, machine);
  return true;
}

nlohmann::ordered_json report_json(const BenchReport& report) {
  const Measurement* prefill = first(report, Phase::kPrefill);
  const Measurement* decode = first(report, Phase::kDecode);
  const auto rates = [](const Measurement* m) { return m ? m->tok_s : std::vector<double>(); };
  nlohmann::ordered_json kv = {{"strategy", kv::spec_text(report.kv.spec)}};
  if (report.kv.tier) kv["tier"] = kv::spec_text(*report.kv.tier);
  kv.update(usage_json((decode ? decode : prefill)->usage));
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const BenchResult& result : report.results) results.push_back(result_json(result));
  return {
      {"model", report.engine.model().config().name},
      {"kv_type", engine::kv_type_text(report.kv)},
      {"kv_select", engine::kv_select_text(report.kv)},
      {"threads", report.threads},
      {"isa", base::isa_name(report.engine.kernels().isa)},
      {"float_activations", rounds(report.engine) ? "bf16" : "f32"},
      {"attention", attention_json(report.engine)},
      {"prompt", report.sweep.prompts.front()},
      {"decode", report.sweep.decodes.front()},
      {"depth", report.sweep.depths.front()},
      {"parallel", report.sweep.parallels.front()},
      {"prefill_tok_s", engine::median(rates(prefill))},
      {"decode_tok_s", engine::median(rates(decode))},
      {"peak_rss_bytes", report.peak_rss_bytes},
      {"file_bytes", report.engine.file_bytes()},
      {"weight_bytes", report.engine.model().weight_bytes()},
      {"experts", experts_json(report.engine.model())},
      {"kv", kv},
      {"repeats", report.repeats},
      {"spread",
       {{"prefill", engine::spread(rates(prefill))}, {"decode", engine::spread(rates(decode))}}},
      {"others_share", plan::share_json(report.others)},
      {"calibration", plan::calibration_json(report.machine)},
      {"results", results}};
}

std::string report_text(const BenchReport& report) {
  std::string text =
      fmt::format("{}, {} threads, {}{}, cache {} {}\n\n", report.engine.model().config().name,
                  report.threads, base::isa_name(report.engine.kernels().isa),
                  rounds(report.engine) ? ", activations bf16" : "", kv::spec_text(report.kv.spec),
                  engine::kv_type_text(report.kv));
  text += fmt::format("{:<16}{:>8}{:>10}{:>12}{:>10}{:>16}{:>11}\n", "what", "depth", "parallel",
                      "tokens/s", "spread", "achieved", "roofline");
  for (const BenchResult& result : report.results) text += result_text(result);
  return text + "\n" + others_text(report) + memory_text(report) + attention_text(report.engine) +
         machine_text(report.machine);
}

}  // namespace kvick::cli
