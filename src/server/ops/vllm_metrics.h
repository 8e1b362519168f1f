#pragma once
// The metrics of vLLM that routers and autoscalers read, by vLLM's names.

#include <string>

#include "engine/core/service_state.h"

namespace kvick::server {

// Returns Prometheus' text format. model: the model's id for clients.
std::string vllm_metrics_text(const engine::Metrics& metrics, const std::string& model);

}  // namespace kvick::server
