#pragma once
// One limit on the total size of all request bodies that are being received, wait for a thread, or
// are being parsed.

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace kvick::server {

class BodyBudget {
 public:
  explicit BodyBudget(size_t most_bytes) : most_bytes_(most_bytes) {}
  size_t most_bytes() const { return most_bytes_; }
  // Takes `bytes` of the budget. Returns false if there is no room for them.
  bool take(size_t bytes) {
    size_t held = held_bytes_;
    do {
      if (bytes > most_bytes_ || held > most_bytes_ - bytes) return false;
    } while (!held_bytes_.compare_exchange_weak(held, held + bytes));
    return true;
  }
  void give_back(size_t bytes) { held_bytes_ -= bytes; }

 private:
  const size_t most_bytes_;
  std::atomic<size_t> held_bytes_ = 0;
};

// One body's share of the budget. The destructor gives it back, on any thread.
class BodyShare {
 public:
  BodyShare() = default;
  explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyShare(BodyShare&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyShare() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }
  // Grows the share to `bytes`, which must not be fewer than before. Returns false, and leaves the
  // share as it is, if there is no room.
  bool grow_to(size_t bytes) {
    if (budget_ == nullptr || !budget_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  size_t bytes_ = 0;
};

}  // namespace kvick::server
