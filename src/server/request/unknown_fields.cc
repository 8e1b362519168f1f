#include "server/request/unknown_fields.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::server {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_safe(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return is_digit(c) || (lower >= 'a' && lower <= 'z') ||
         std::string_view("_-.[]").find(c) != std::string_view::npos;
}

// Makes a client's text safe for headers and logs.
std::string safe(std::string_view path) {
  std::string name(path.substr(0, UnknownFields::kMostNameBytes));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_safe(c); }, '?');
  if (path.size() > name.size()) name += "...";
  return name;
}

// Returns "messages[].content[].x" for "messages[3].content[0].x".
std::string without_numbers(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    out += name[i];
    if (name[i] != '[') continue;
    while (i + 1 < name.size() && is_digit(name[i + 1])) ++i;
  }
  return out;
}

}  // namespace

void UnknownFields::add(std::string_view path) {
  if (more_) return;
  std::string name = safe(path);
  std::string kind = without_numbers(name);
  if (std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end()) return;
  more_ = names_.size() == kMostNames;
  if (more_) return;
  names_.push_back(std::move(name));
  kinds_.push_back(std::move(kind));
}

Headers UnknownFields::headers() const {
  if (names_.empty()) return {};
  return {{"X-Kvick-Ignored-Fields",
           fmt::format("{}{}", fmt::join(names_, ", "), more_ ? ", ..." : "")}};
}

void UnknownFieldLog::add(const UnknownFields& unknown,
                          const std::function<void(const std::string&)>& report) {
  if (unknown.names().empty() || !report) return;
  const std::lock_guard lock(mutex_);
  for (const std::string& name : unknown.names()) {
    if (full_) return;
    const std::string kind = without_numbers(name);
    if (told_.contains(kind)) continue;
    full_ = told_.size() == kMostNames;
    if (full_) return report("further unknown fields of requests are ignored and not logged");
    told_.insert(kind);
    report(fmt::format(
        "a request has the unknown field {}, which is ignored (--strict-fields refuses such "
        "requests)",
        kind));
  }
}

}  // namespace kvick::server
