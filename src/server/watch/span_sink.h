#pragma once
// A destination of requests that are exported as spans.

#include <cstdint>

#include "server/request/request_record.h"

namespace kvick::server {

struct SpanCounts {
  // Requests: accepted by the collector, not accepted, and dropped for lack of room.
  uint64_t sent = 0, failed = 0, dropped = 0;
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Safe on any thread; must not block.
  virtual void add(RequestFacts facts) noexcept = 0;
  virtual SpanCounts counts() const = 0;
};

}  // namespace kvick::server
