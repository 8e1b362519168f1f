#pragma once
// Ranks that are threads of one process.

#include <memory>
#include <new>
#include <vector>

#include "model/ranks/shared_ranks.h"

namespace kvick::model {

class ThreadRanks {
 public:
  explicit ThreadRanks(unsigned ranks, WaitingOptions waiting = {.seconds = 60})
      : region_(static_cast<std::byte*>(std::calloc(SharedRanks::region_bytes(ranks) + kLine, 1))) {
    std::byte* const first = region_.get() + (-reinterpret_cast<uintptr_t>(region_.get())) % kLine;
    for (unsigned rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<SharedRanks>(first, rank, ranks, waiting));
  }
  SharedRanks& operator[](unsigned rank) { return *ranks_[rank]; }

 private:
  static constexpr uintptr_t kLine = 64;
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> region_;
  std::vector<std::unique_ptr<SharedRanks>> ranks_;
};

}  // namespace kvick::model
