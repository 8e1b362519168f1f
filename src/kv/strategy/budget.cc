#include "kv/strategy/budget.h"

#include <utility>

namespace kvick::kv {

bool Charge::raise_to(uint64_t bytes) {
  if (bytes <= bytes_) return true;
  if (budget_ != nullptr && !budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void Charge::lower_to(uint64_t bytes) {
  if (bytes >= bytes_) return;
  if (budget_ != nullptr) budget_->used_.fetch_sub(bytes_ - bytes, std::memory_order_relaxed);
  bytes_ = bytes;
}

void Charge::swap(Charge& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(bytes_, other.bytes_);
}

// Relaxed order is enough: the counter protects no other memory.
bool Budget::take(uint64_t bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

base::Result<Charge, Shortage> Budget::charge(uint64_t bytes, std::string_view what) {
  Charge charge(this);
  if (!charge.raise_to(bytes)) return not_free(what, bytes, free(), bytes_);
  return charge;
}

Shortage not_free(std::string_view what, uint64_t needed, uint64_t free, uint64_t of) {
  return {.needed_bytes = needed,
          .available_bytes = free,
          .what = fmt::format("{}: {} more bytes of cache, but {} of {} are free", what, needed,
                              free, of)};
}

}  // namespace kvick::kv
