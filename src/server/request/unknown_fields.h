#pragma once
// Fields of requests that this server does not know. They are ignored, named in the answer's header
// X-Kvick-Ignored-Fields, and logged once per name; with --strict-fields the request is refused.

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/request/http.h"

namespace kvick::server {

// The unknown fields of one request.
class UnknownFields {
 public:
  static constexpr size_t kMostNames = 16;      // further names become one "..."
  static constexpr size_t kMostNameBytes = 64;  // a longer name is cut off

  explicit UnknownFields(bool refused) : refused_(refused) {}

  // If true, a reader that finds an unknown field returns an error instead of adding it.
  bool refused() const { return refused_; }
  // path: the name that errors use, "messages[2].content[0].cache_control". Of paths that differ
  // only in their indices, the first is kept.
  void add(std::string_view path);
  // The names consist of letters, digits and "_-.[]"; other bytes are replaced by '?'.
  const std::vector<std::string>& names() const { return names_; }
  // Returns X-Kvick-Ignored-Fields, or no header if no field is unknown.
  Headers headers() const;

 private:
  bool refused_;
  std::vector<std::string> names_, kinds_;  // kinds_: the names without their indices
  bool more_ = false;                       // there were more than kMostNames
};

// The unknown names that a server has logged.
class UnknownFieldLog {
 public:
  static constexpr size_t kMostNames = 256;

  // Reports the names that were not reported before. After kMostNames, reports once that further
  // ones are not logged. Safe on any thread.
  void add(const UnknownFields& unknown, const std::function<void(const std::string&)>& report);

 private:
  std::mutex mutex_;
  std::set<std::string> told_;
  bool full_ = false;
};

}  // namespace kvick::server
