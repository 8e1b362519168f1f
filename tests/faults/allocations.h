#pragma once
// Makes allocations of this program fail: operator new throws std::bad_alloc where a test wants it.

#include <cstdint>

namespace kvick::faults {

// Returns the allocations of all threads since the last call of fail_...().
uint64_t allocations();
// Makes the n-th allocation from now fail, once; 0: none.
void fail_nth(uint64_t n);
// Makes about one in n allocations fail; 0: none.
void fail_one_in(uint64_t n);
// Makes all allocations of exactly this many bytes fail; 0: none.
void fail_of_bytes(uint64_t bytes);
// Returns the number of allocations that have failed since the program began.
uint64_t failed_allocations();

// While an object is alive, its thread's allocations neither fail nor count.
class Spared {
 public:
  Spared();
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

}  // namespace kvick::faults
