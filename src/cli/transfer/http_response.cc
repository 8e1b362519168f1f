#include "cli/transfer/http_response.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cli/transfer/sha256.h"

namespace kvick::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void HttpResponse::take_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = {};
    const size_t space = line.find(' ');
    if (space != line.npos)
      status = static_cast<int>(number(line.substr(space + 1, 3)).value_or(0));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "etag") etag = value;
  if (name == "last-modified") last_modified = value;
  if (name == "content-type") content_type = lower(value);
  if (name == "content-encoding") content_encoding = lower(value);
  if (name == "x-linked-etag") linked_etag = value;
  if (name == "content-length") content_length = number(value);
  if (name == "x-linked-size") linked_size = number(value);
  if (name == "retry-after") retry_after_s = number(value);
  if (name == "content-range" && lower(value).starts_with("bytes ")) {
    const std::string_view range = trimmed(value.substr(6));
    const size_t slash = range.find('/');
    range_begin = number(range.substr(0, range.find('-')));
    range_total = slash == range.npos ? std::nullopt : number(range.substr(slash + 1));
  }
}

std::string HttpResponse::validator() const {
  if (etag.starts_with('"')) return etag;
  return last_modified;
}

std::string HttpResponse::stated_sha256() const {
  std::string_view tag = linked_etag.empty() ? etag : linked_etag;
  if (tag.starts_with("W/")) tag.remove_prefix(2);
  if (tag.size() > 2 && tag.front() == '"' && tag.back() == '"')
    tag = tag.substr(1, tag.size() - 2);
  return is_sha256(tag) ? lower(tag) : std::string();
}

}  // namespace kvick::cli
