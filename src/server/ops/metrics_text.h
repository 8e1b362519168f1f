#pragma once
// Numbers in Prometheus' text format.

#include <span>
#include <string>

#include "engine/core/service_state.h"
#include "server/request/http.h"

namespace kvick::server {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// instances: of each, where there are several.
std::string metrics_text(const engine::Metrics& metrics, const NetworkCounters& network,
                         std::span<const engine::Metrics> instances = {});

}  // namespace kvick::server
