#pragma once
// Metrics in Prometheus' text format.

#include <span>
#include <string>

#include "engine/core/service_state.h"
#include "server/request/http.h"
#include "server/watch/request_book.h"

namespace kvick::server {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// instances: the metrics of each instance, if there are several.
std::string service_metrics_text(const engine::Metrics& metrics,
                                 std::span<const engine::Metrics> instances = {});
std::string network_metrics_text(const NetworkCounters& network);
std::string watch_metrics_text(const WatchCounts& counts);

}  // namespace kvick::server
