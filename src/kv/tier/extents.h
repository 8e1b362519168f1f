#pragma once
// Allocates space in a slower tier: extents of one size, each for one unit of tokens in all layers
// and heads.

#include <vector>

#include "kv/tier/tier.h"
#include "kv/values/usage.h"

namespace kvick::kv {

class Extents {
 public:
  // bytes: size of an extent, a multiple of kTierPage unless the tier has memory(). most_bytes: of
  // all extents, if the tier has more.
  Extents(Tier& tier, uint64_t bytes, uint64_t most_bytes)
      : tier_(tier), bytes_(bytes), most_bytes_(std::min(tier.most_bytes(), most_bytes)) {}

  uint64_t bytes() const { return bytes_; }
  uint64_t taken_bytes() const { return (next_ - free_.size()) * bytes_; }
  uint64_t at(uint32_t extent) const { return extent * bytes_; }

  // Takes `count` extents, or returns a Shortage and changes nothing.
  base::Result<std::vector<uint32_t>, Shortage> take(uint64_t count) {
    const uint64_t left = most_bytes_ - std::min(most_bytes_, taken_bytes());
    if (count > left / bytes_)
      return Shortage{.needed_bytes = count * bytes_,
                      .available_bytes = left,
                      .what = fmt::format("the slower tier: {} more bytes, but {} of {} are free",
                                          count * bytes_, left, most_bytes_)};
    std::vector<uint32_t> taken;
    taken.reserve(count);
    // So that give() never has to allocate.
    if (free_.capacity() < next_ + count) free_.reserve(2 * (next_ + count));
    while (taken.size() < count) {
      const uint32_t extent = free_.empty() ? next_ : free_.back();
      if (const auto reserved = tier_.reserve(at(extent), bytes_); !reserved.ok()) {
        give(taken);
        return Shortage{.needed_bytes = count * bytes_,
                        .available_bytes = taken.size() * bytes_,
                        .what = reserved.error().message};
      }
      taken.push_back(extent);
      if (free_.empty())
        ++next_;
      else
        free_.pop_back();
    }
    return taken;
  }
  void give(std::span<const uint32_t> extents) noexcept {
    for (const uint32_t extent : extents) {
      tier_.release(at(extent), bytes_);
      free_.push_back(extent);
    }
  }

 private:
  Tier& tier_;
  uint64_t bytes_, most_bytes_;
  std::vector<uint32_t> free_;
  uint32_t next_ = 0;
};

}  // namespace kvick::kv
