#pragma once
// io_uring for the transfers of one file.

#include <deque>
#include <liburing.h>
#include <memory>
#include <mutex>
#include <vector>

#include "kv/tier/tier.h"

namespace kvick::kv {

class TierRing {
 public:
  // `file` must stay open for the ring's lifetime. Error: the system refuses io_uring, or cannot
  // wait with a time limit (Linux before 5.11).
  static base::Result<std::unique_ptr<TierRing>> make(int file);
  ~TierRing();
  TierRing(const TierRing&) = delete;
  TierRing& operator=(const TierRing&) = delete;

  void start(std::span<const Transfer> transfers);
  void finish(double seconds, std::vector<Moved>& ended);

  static constexpr unsigned kDepth = 256;  // transfers given to the system at once

 private:
  explicit TierRing(int file) : file_(file), slots_(kDepth) {}
  void submit();
  bool reap(std::vector<Moved>& ended);

  int file_;
  io_uring ring_{};
  bool made_ = false;
  std::mutex mutex_;  // guards all below and submitting; waiting for the ring needs no lock
  std::deque<Transfer> waiting_;
  std::vector<Transfer> slots_;  // transfers given to the system; user_data is the index
  std::vector<uint32_t> free_;   // free slots
};

}  // namespace kvick::kv
