#pragma once
// The numbers that routers and autoscalers read of vLLM's servers, by its names.

#include <string>

#include "engine/core/service_state.h"

namespace kvick::server {

// In Prometheus' text format; model: the id that clients see.
std::string vllm_metrics_text(const engine::Metrics& metrics, const std::string& model);

}  // namespace kvick::server
