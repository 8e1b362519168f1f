#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvick::engine {

// Cuts a stream of text before the first stop string, or after it. Holds back only text that may
// still become a stop string.
class StopMatcher {
 public:
  // Empty strings are ignored. included: the stop string is part of the text.
  explicit StopMatcher(std::vector<std::string> stops, bool included = false);

  std::string push(std::string_view text);  // returns text that is certain to be part of the answer
  std::string finish();                     // returns the rest when the answer ends
  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the stop string; empty: none so far

 private:
  size_t held_suffix() const;
  std::vector<std::string> stops_;
  std::string pending_, matched_;
  bool included_;
  bool stopped_ = false;
};

}  // namespace kvick::engine
