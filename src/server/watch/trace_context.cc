#include "server/watch/trace_context.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::server {
namespace {

constexpr size_t kTrace = 32, kParent = 16;
constexpr size_t kLength = 2 + 1 + kTrace + 1 + kParent + 1 + 2;

bool is_hexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_hexadecimal(text) && text.find_first_not_of('0') != std::string_view::npos;
}

unsigned digit(char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); }

}  // namespace

// Later versions may have more fields after the flags. Version 00 has none, and ff is invalid.
std::optional<TraceParent> read_trace_parent(std::string_view header) {
  if (header.size() < kLength) return std::nullopt;
  const std::string_view version = header.substr(0, 2), trace = header.substr(3, kTrace),
                         parent = header.substr(3 + kTrace + 1, kParent),
                         flags = header.substr(kLength - 2, 2), rest = header.substr(kLength);
  const bool dashes = header[2] == '-' && header[3 + kTrace] == '-' && header[kLength - 3] == '-';
  if (!dashes || !is_hexadecimal(version) || version == "ff" || !is_hexadecimal(flags) ||
      !is_id(trace) || !is_id(parent))
    return std::nullopt;
  if (!rest.empty() && (version == "00" || rest.front() != '-')) return std::nullopt;
  return TraceParent{.trace = std::string(trace),
                     .parent = std::string(parent),
                     .sampled = digit(flags[1]) % 2 == 1};
}

std::string trace_parent_text(const TraceParent& context) {
  return fmt::format("00-{}-{}-{:02x}", context.trace, context.parent, context.sampled ? 1 : 0);
}

std::string hexadecimal(uint64_t number) { return fmt::format("{:016x}", number); }

}  // namespace kvick::server
