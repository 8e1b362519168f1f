#pragma once
// For tests: a tier in memory that fails, hangs or is full when the test says so.

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "kv/tier/tier.h"

namespace kvick::kv::test {

// Moves bytes when finish() is called. The test sets `full`, `fails` and `hangs`.
class MadeTier final : public Tier {
 public:
  explicit MadeTier(uint64_t most_bytes = uint64_t{1} << 40) : most_bytes_(most_bytes) {}

  base::Status<> reserve(uint64_t at, uint64_t bytes) override {
    if (full) return base::fail("the tier is full");
    for (uint64_t page = at; page < at + bytes; page += kTierPage) pages_[page].resize(kTierPage);
    return base::Done{};
  }
  void release(uint64_t at, uint64_t bytes) override {
    for (uint64_t page = at; page < at + bytes; page += kTierPage) pages_.erase(page);
  }
  void start(std::span<const Transfer> transfers) override {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), transfers.begin(), transfers.end());
  }
  void finish(double, std::vector<Moved>& ended) override {
    const std::lock_guard lock(mutex_);
    std::vector<Transfer> stuck;
    for (const Transfer& transfer : waiting_) {
      if (hangs && hangs(transfer)) {
        stuck.push_back(transfer);
        continue;
      }
      const bool bad = fails && fails(transfer);
      if (!bad) move(transfer);
      ended.push_back({transfer.tag, bad ? "the disk is broken" : ""});
    }
    waiting_ = stuck;
  }
  uint64_t most_bytes() const override { return most_bytes_; }
  std::string description() const override { return "a made tier"; }
  size_t reserved_pages() const { return pages_.size(); }

  bool full = false;
  std::function<bool(const Transfer&)> fails, hangs;

 private:
  void move(const Transfer& transfer) {
    for (size_t i = 0; i < transfer.data.size();) {
      const uint64_t at = transfer.at + i, page = at / kTierPage * kTierPage;
      std::vector<std::byte>& bytes = pages_.at(page);
      const size_t n = std::min<size_t>(transfer.data.size() - i, page + kTierPage - at);
      std::byte* const here = bytes.data() + (at - page);
      if (transfer.way == Way::kRead)
        std::memcpy(&transfer.data[i], here, n);
      else
        std::memcpy(here, &transfer.data[i], n);
      i += n;
    }
  }

  uint64_t most_bytes_;
  std::mutex mutex_;
  std::map<uint64_t, std::vector<std::byte>> pages_;
  std::vector<Transfer> waiting_;
};

}  // namespace kvick::kv::test
