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

}  // namespace

std::string vllm_metrics_text(const engine::Metrics& metrics, const std::string& model) {
  const std::string label = fmt::format("model_name=\"{}\",engine=\"0\"", escaped_label(model));
  // Cached blocks that no sequence uses count as free, as in vLLM.
  const uint64_t held =
      metrics.kv.allocated_bytes - std::min(metrics.kv.allocated_bytes, metrics.kv.cached_bytes);
  const double used =
      metrics.kv_limit_bytes == 0
          ? 0
          : std::min(1.0, static_cast<double>(held) / static_cast<double>(metrics.kv_limit_bytes));
  const uint64_t block = std::max<uint64_t>(metrics.token_bytes * metrics.block_tokens, 1);
  return gauge("num_requests_waiting", "Requests that wait.", label,
               uint64_t{metrics.waiting} + metrics.preempted) +
         gauge("num_requests_running", "Requests that run.", label, metrics.running) +
         gauge("kv_cache_usage_perc", "Share of the cache's memory in use, 0 to 1.", label, used) +
         gauge("cache_config_info", "Tokens of a block, and blocks that the cache has room for.",
               fmt::format("{},block_size=\"{}\",num_gpu_blocks=\"{}\"", label,
                           metrics.block_tokens, metrics.kv_limit_bytes / block),
               1);
}

}  // namespace kvick::server
