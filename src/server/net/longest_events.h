#pragma once
// The bytes of a stream's longest events, for the limit on what its client has not read
// (ServerOptions::most_unread_bytes).

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace kvick::server {

class LongestEvents {
 public:
  // Begins a stream with this many events that may be long (StreamHead::long_events).
  void begin(size_t long_events) {
    most_ = std::max<size_t>(1, long_events);
    if (bytes_.size() > most_) bytes_.resize(most_);
  }
  // Counts an event. Returns the bytes of the longest events so far.
  size_t add(size_t bytes) {
    bytes_.insert(std::upper_bound(bytes_.begin(), bytes_.end(), bytes, std::greater<>()), bytes);
    if (bytes_.size() > most_) bytes_.pop_back();
    return std::accumulate(bytes_.begin(), bytes_.end(), size_t{0});
  }
  void clear() { bytes_.clear(); }

 private:
  size_t most_ = 1;
  std::vector<size_t> bytes_;  // the longest first
};

}  // namespace kvick::server
