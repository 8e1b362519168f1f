#pragma once
// Fields of a request that this server does not know. They are ignored, named in the answer's
// header X-Kvick-Ignored-Fields and, each name once, in the log; or refused (--strict-fields).

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/request/http.h"

namespace kvick::server {

// Of one request.
class UnknownFields {
 public:
  static constexpr size_t kMostNames = 16;      // further ones are "..."
  static constexpr size_t kMostNameBytes = 64;  // a longer name is cut

  explicit UnknownFields(bool refused) : refused_(refused) {}

  // Whoever finds one answers with an error instead of adding it.
  bool refused() const { return refused_; }
  // path: as errors call it, "messages[2].content[0].cache_control". Of paths that differ only in
  // such numbers the first is kept.
  void add(std::string_view path);
  // Names of letters, digits and "_-.[]" only: other bytes have become '?'.
  const std::vector<std::string>& names() const { return names_; }
  // None if no field is unknown.
  Headers headers() const;

 private:
  bool refused_;
  std::vector<std::string> names_, kinds_;  // kinds: names without their numbers
  bool more_ = false;                       // than kMostNames
};

// The names that a server has logged.
class UnknownFieldLog {
 public:
  static constexpr size_t kMostNames = 256;

  // Reports names that were not reported yet; after kMostNames, reports that no more will be.
  // On any thread.
  void add(const UnknownFields& unknown, const std::function<void(const std::string&)>& report);

 private:
  std::mutex mutex_;
  std::set<std::string> told_;
  bool full_ = false;
};

}  // namespace kvick::server
