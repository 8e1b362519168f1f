#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvick::engine {

// Cuts a stream of text before the first stop string, holding back only what may still become one.
class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  std::string push(std::string_view text);  // what is certain to come before any stop string
  std::string finish();                     // the rest, at the end of the generation
  bool stopped() const { return stopped_; }

 private:
  size_t held_suffix() const;
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace kvick::engine
