#pragma once
// W3C Trace Context: the header traceparent, "00-TRACE-PARENT-FLAGS" in hexadecimal.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvick::server {

struct TraceParent {
  std::string trace, parent;  // 32 and 16 hexadecimal digits, not all 0
  bool sampled = true;        // the caller records its spans and wants ours
};

// Parses the header. Nothing if it is missing or malformed; then a new trace begins.
std::optional<TraceParent> read_trace_parent(std::string_view header);
std::string trace_parent_text(const TraceParent& context);
// Returns 16 hexadecimal digits.
std::string hexadecimal(uint64_t number);

}  // namespace kvick::server
