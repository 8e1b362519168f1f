#pragma once
// W3C Trace Context: the header traceparent, "00-TRACE-PARENT-FLAGS" in hexadecimal.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvick::server {

struct TraceParent {
  std::string trace, parent;  // 32 and 16 hexadecimal digits, not all 0
  bool sampled = true;        // the caller keeps its spans, and wants ours
};

// None: there is no header, or it is not one; then a trace begins here.
std::optional<TraceParent> read_trace_parent(std::string_view header);
std::string trace_parent_text(const TraceParent& context);
// Of 16 digits.
std::string hexadecimal(uint64_t number);

}  // namespace kvick::server
