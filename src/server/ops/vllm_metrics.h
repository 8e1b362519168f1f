#pragma once
// The metrics of vLLM that routers and autoscalers read, by vLLM's names.

#include <cstdint>
#include <string>

#include "engine/core/adapters.h"
#include "engine/core/service_state.h"

namespace kvick::server {

// Returns the bytes of the cache in use. Cached blocks that no sequence uses count as free, as in
// vLLM and SGLang.
uint64_t used_bytes(const engine::Metrics& metrics);

// Returns Prometheus' text format. model: the model's id for clients.
std::string vllm_metrics_text(const engine::Metrics& metrics, const std::string& model);

// Returns the adapters in Prometheus' text format, or "" without adapters, as vLLM. now: seconds
// since 1970, the sample's value. Endpoint pickers read the newest sample.
std::string vllm_adapters_text(const engine::Adapters& adapters, int64_t now);

}  // namespace kvick::server
