#include "server/ops/vllm_metrics.h"

#include <algorithm>
#include <fmt/format.h>

#include "server/ops/model_samples.h"

namespace kvick::server {
namespace {

std::string gauge(std::string_view name, std::string_view help, std::string_view labels,
                  double value) {
  return fmt::format("# HELP vllm:{0} {1}\n# TYPE vllm:{0} gauge\nvllm:{0}{{{2}}} {3}\n", name,
                     help, labels, value);
}

std::string counter(std::string_view name, std::string_view help, std::string_view labels,
                    uint64_t value) {
  return fmt::format(
      "# HELP vllm:{0}_total {1}\n# TYPE vllm:{0}_total counter\nvllm:{0}_total{{{2}}} {3}\n", name,
      help, labels, value);
}

}  // namespace

uint64_t used_bytes(const engine::Metrics& metrics) {
  return metrics.kv.allocated_bytes - std::min(metrics.kv.allocated_bytes, metrics.kv.cached_bytes);
}

std::string vllm_metrics_text(const engine::Metrics& metrics, const std::string& model) {
  const std::string label = fmt::format("model_name=\"{}\",engine=\"0\"", escaped_label(model));
  const double used = metrics.kv_limit_bytes == 0
                          ? 0
                          : std::min(1.0, static_cast<double>(used_bytes(metrics)) /
                                              static_cast<double>(metrics.kv_limit_bytes));
  const uint64_t block = std::max<uint64_t>(metrics.token_bytes * metrics.block_tokens, 1);
  return gauge("num_requests_waiting", "Requests that wait.", label,
               uint64_t{metrics.waiting} + metrics.preempted) +
         gauge("num_requests_running", "Requests that run.", label, metrics.running) +
         gauge("kv_cache_usage_perc", "Share of the cache's memory in use, 0 to 1.", label, used) +
         gauge("cache_config_info", "Tokens of a block, and blocks that the cache has room for.",
               fmt::format("{},block_size=\"{}\",num_gpu_blocks=\"{}\"", label,
                           metrics.block_tokens, metrics.kv_limit_bytes / block),
               1) +
         counter("prefix_cache_queries", "Tokens of prompts that were looked up in the cache.",
                 label, metrics.prompt_tokens) +
         counter("prefix_cache_hits", "Tokens of prompts that were found in the cache.", label,
                 metrics.cached_tokens) +
         counter("prompt_tokens", "Tokens of prompts.", label, metrics.prompt_tokens) +
         counter("generation_tokens", "Tokens of answers.", label, metrics.generated_tokens) +
         counter("num_preemptions", "Preemptions of requests.", label,
                 metrics.swaps + metrics.recomputations);
}

// All adapters are in memory and can answer at once, so all of them are listed as running: endpoint
// pickers send a request to a server that lists its adapter.
std::string vllm_adapters_text(const engine::Adapters& adapters, int64_t now) {
  if (adapters.empty()) return "";
  std::string names;
  for (const auto& adapter : adapters)
    names += (names.empty() ? "" : ",") + escaped_label(adapter->name);
  return gauge(
      "lora_requests_info", "Adapters that can answer; the value is the time.",
      fmt::format("max_lora=\"{}\",waiting_lora_adapters=\"\",running_lora_adapters=\"{}\"",
                  adapters.size(), names),
      static_cast<double>(now));
}

}  // namespace kvick::server
