#include "cli/chat/message_lines.h"

#include <utility>

namespace kvick::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

std::optional<std::string> MessageLines::complete() {
  begun_ = in_block_ = false;
  return std::exchange(message_, {});
}

std::optional<std::string> MessageLines::add(std::string_view line) {
  if (blocks_ && !begun_ && line.starts_with(kQuotes)) {
    begun_ = in_block_ = true;
    line.remove_prefix(kQuotes.size());
    if (line.empty()) return std::nullopt;
  }
  if (in_block_) {
    const bool ends = line.ends_with(kQuotes);
    if (ends) line.remove_suffix(kQuotes.size());
    message_ += line;
    if (!ends) {
      message_ += '\n';
      return std::nullopt;
    }
    if (line.empty() && message_.ends_with('\n')) message_.pop_back();
    return complete();
  }
  if (line.ends_with('\\')) {
    begun_ = true;
    line.remove_suffix(1);
    message_ += line;
    message_ += '\n';
    return std::nullopt;
  }
  message_ += line;
  return complete();
}

std::optional<std::string> MessageLines::finish() {
  if (message_.empty()) return std::nullopt;
  return complete();
}

}  // namespace kvick::cli
