#pragma once
// Allocations of this program that fail: operator new throws std::bad_alloc where a test wants it.

#include <cstdint>

namespace kvick::faults {

// Allocations of all threads since the last call of one of these functions.
uint64_t allocations();
// Of those from now on, the n-th fails, once; 0: none.
void fail_nth(uint64_t n);
// About one in so many fails; 0: none.
void fail_one_in(uint64_t n);
// Allocations that have failed, ever.
uint64_t failed_allocations();

// While one is alive its thread's allocations do not fail, nor count.
class Spared {
 public:
  Spared();
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

}  // namespace kvick::faults
