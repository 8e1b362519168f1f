#pragma once
// Where requests go whose spans are exported.

#include <cstdint>

#include "server/request/request_record.h"

namespace kvick::server {

struct SpanCounts {
  uint64_t sent = 0, failed = 0, dropped = 0;  // requests: taken by the collector, not, no room
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Called on any thread; must not block it.
  virtual void add(RequestFacts facts) noexcept = 0;
  virtual SpanCounts counts() const = 0;
};

}  // namespace kvick::server
