#pragma once
// Numbers in Prometheus' text format.

#include <string>

#include "engine/service_state.h"
#include "server/http.h"

namespace kvick::server {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string metrics_text(const engine::Metrics& metrics, const NetworkCounters& network);

}  // namespace kvick::server
