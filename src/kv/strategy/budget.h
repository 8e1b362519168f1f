#pragma once
// One hard cap on the memory of several stores, of any strategies, and of what belongs to them.
// Callers charge memory before they take it and give the charge back when they free the memory. Any
// thread may use a budget. A budget outlives its charges.

#include <atomic>
#include <string_view>

#include "base/result.h"
#include "kv/values/usage.h"

namespace kvick::kv {

class Budget;

// Bytes held of a budget. Move-only; the destructor gives them back.
class Charge {
 public:
  Charge() = default;  // without a budget: counts bytes only
  explicit Charge(Budget* budget) : budget_(budget) {}
  Charge(Charge&& other) noexcept { swap(other); }
  Charge& operator=(Charge&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Charge() { lower_to(0); }

  uint64_t bytes() const { return bytes_; }
  // Raises the charge to at least `bytes`. Returns false and changes nothing if the budget lacks
  // the rest.
  bool raise_to(uint64_t bytes);
  // Lowers the charge to at most `bytes`.
  void lower_to(uint64_t bytes);

 private:
  void swap(Charge& other) noexcept;
  Budget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

class Budget {
 public:
  explicit Budget(uint64_t bytes) : bytes_(bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  uint64_t bytes() const { return bytes_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t free() const { return bytes_ - used(); }
  // Charges memory that no store counts. `what` begins the text of the Shortage.
  base::Result<Charge, Shortage> charge(uint64_t bytes, std::string_view what);

 private:
  friend class Charge;
  bool take(uint64_t bytes);

  const uint64_t bytes_;
  std::atomic<uint64_t> used_ = 0;  // never more than bytes_
};

// The Shortage that stores and budgets return; `what` begins its text. All sizes in bytes.
Shortage not_free(std::string_view what, uint64_t needed, uint64_t free, uint64_t of);

}  // namespace kvick::kv
