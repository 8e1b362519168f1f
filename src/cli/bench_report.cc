#include "cli/bench_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/memory.h"
#include "cli/engine_options.h"

namespace kvick::cli {
namespace {

using engine::Measurement;
using engine::Phase;

// The first measurement of a phase, or null.
const Measurement* first(const BenchReport& report, Phase phase) {
  for (const Measurement& result : report.results)
    if (result.what.phase == phase) return &result;
  return nullptr;
}

nlohmann::ordered_json usage_json(const kv::Usage& usage) {
  return {{"used_bytes", usage.used_bytes},
          {"allocated_bytes", usage.allocated_bytes},
          {"wasted_bytes", usage.wasted_bytes},
          {"copied_bytes", usage.copied_bytes},
          {"page_bytes", usage.page_bytes}};
}

nlohmann::ordered_json result_json(const Measurement& result) {
  return {{"phase", engine::phase_name(result.what.phase)},
          {"tokens", result.what.tokens},
          {"depth", result.what.depth},
          {"parallel", result.what.parallel},
          {"tok_s", engine::median(result.tok_s)},
          {"spread", engine::spread(result.tok_s)},
          {"kv", usage_json(result.usage)}};
}

std::string result_text(const Measurement& result) {
  return fmt::format(
      "{:<16}{:>8}{:>10}{:>12.1f}{:>8.1f} %\n",
      fmt::format("{} {}", engine::phase_name(result.what.phase), result.what.tokens),
      result.what.depth, result.what.parallel, engine::median(result.tok_s),
      100 * engine::spread(result.tok_s));
}

std::string memory_text(const BenchReport& report) {
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const auto largest = std::max_element(report.results.begin(), report.results.end(),
                                        [](const Measurement& a, const Measurement& b) {
                                          return a.usage.allocated_bytes < b.usage.allocated_bytes;
                                        });
  const kv::Usage& usage = largest->usage;
  return fmt::format(
             "cache{}: {:.2f} MiB used, {:.2f} MiB allocated, {:.2f} MiB wasted, {:.2f} MiB "
             "copied\n",
             report.results.size() > 1 ? " at its largest" : "", mib(usage.used_bytes),
             mib(usage.allocated_bytes), mib(usage.wasted_bytes), mib(usage.copied_bytes)) +
         fmt::format("peak memory: {:.1f} MiB (weights {:.1f} MiB, file {:.1f} MiB)\n",
                     mib(report.peak_rss_bytes), mib(report.engine.model().weight_bytes()),
                     mib(report.engine.file_bytes()));
}

}  // namespace

nlohmann::ordered_json report_json(const BenchReport& report) {
  const Measurement* prefill = first(report, Phase::kPrefill);
  const Measurement* decode = first(report, Phase::kDecode);
  const auto rates = [](const Measurement* m) { return m ? m->tok_s : std::vector<double>(); };
  nlohmann::ordered_json kv = {{"strategy", spec_text(report.kv.spec)}};
  kv.update(usage_json((decode ? decode : prefill)->usage));
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Measurement& result : report.results) results.push_back(result_json(result));
  return {
      {"model", report.engine.model().config().name},
      {"kv_type", lower(kernels::dtype_info(report.kv.dtype).name)},
      {"threads", report.threads},
      {"isa", base::isa_name(report.engine.kernels().isa)},
      {"prompt", report.sweep.prompts.front()},
      {"decode", report.sweep.decodes.front()},
      {"depth", report.sweep.depths.front()},
      {"parallel", report.sweep.parallels.front()},
      {"prefill_tok_s", engine::median(rates(prefill))},
      {"decode_tok_s", engine::median(rates(decode))},
      {"peak_rss_bytes", report.peak_rss_bytes},
      {"file_bytes", report.engine.file_bytes()},
      {"weight_bytes", report.engine.model().weight_bytes()},
      {"kv", kv},
      {"repeats", report.repeats},
      {"spread",
       {{"prefill", engine::spread(rates(prefill))}, {"decode", engine::spread(rates(decode))}}},
      {"results", results}};
}

std::string report_text(const BenchReport& report) {
  std::string text =
      fmt::format("{}, {} threads, {}, cache {} {}\n\n", report.engine.model().config().name,
                  report.threads, base::isa_name(report.engine.kernels().isa),
                  spec_text(report.kv.spec), lower(kernels::dtype_info(report.kv.dtype).name));
  text += fmt::format("{:<16}{:>8}{:>10}{:>12}{:>10}\n", "what", "depth", "parallel", "tokens/s",
                      "spread");
  for (const Measurement& result : report.results) text += result_text(result);
  return text + "\n" + memory_text(report);
}

}  // namespace kvick::cli
