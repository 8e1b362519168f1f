#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace kvick::faults {
namespace {

std::atomic<uint64_t> g_count{0}, g_nth{0}, g_one_in{0}, g_bytes{0}, g_failed{0};
thread_local int t_spared = 0;

// Returns well mixed bits of a number (splitmix64), so that threads need no generator of their own.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns whether an allocation may come from nlohmann's destructor of a list or an object. To
// avoid recursion, that destructor allocates 16 bytes per entry, and the process ends if it cannot:
// no catch helps (docs/adr/0026). Such allocations are spared. A process without memory fails at
// its large ones first.
bool may_be_of_json(size_t bytes) { return bytes % 16 == 0 && bytes <= 4096; }

bool fails(size_t bytes) {
  if (t_spared > 0) return false;
  const uint64_t number = g_count.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t one_in = g_one_in.load(std::memory_order_relaxed);
  const uint64_t of_bytes = g_bytes.load(std::memory_order_relaxed);
  const bool fails = number == g_nth.load(std::memory_order_relaxed) ||
                     (of_bytes != 0 && bytes == of_bytes) ||
                     (one_in != 0 && mixed(number) % one_in == 0 && !may_be_of_json(bytes));
  if (fails) g_failed.fetch_add(1, std::memory_order_relaxed);
  return fails;
}

void* allocate(size_t bytes, size_t alignment) {
  if (fails(bytes)) throw std::bad_alloc();
  void* const memory =
      alignment == 0
          ? std::malloc(bytes > 0 ? bytes : 1)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void set(uint64_t nth, uint64_t one_in, uint64_t bytes) {
  g_nth = 0;
  g_one_in = 0;
  g_bytes = 0;
  g_count = 0;
  g_nth = nth;
  g_one_in = one_in;
  g_bytes = bytes;
}

}  // namespace

uint64_t allocations() { return g_count.load(); }
void fail_nth(uint64_t n) { set(n, 0, 0); }
void fail_one_in(uint64_t n) { set(0, n, 0); }
void fail_of_bytes(uint64_t bytes) { set(0, 0, bytes); }
uint64_t failed_allocations() { return g_failed.load(); }
Spared::Spared() { ++t_spared; }
Spared::~Spared() { --t_spared; }

}  // namespace kvick::faults

// The array forms call these.
void* operator new(size_t bytes) { return kvick::faults::allocate(bytes, 0); }
// The default would call operator new(size_t), but AddressSanitizer replaces it with its own.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return kvick::faults::allocate(bytes, 0);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return kvick::faults::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

// nlohmann's constructor of an object or a list leaks what it has allocated when it throws
// (3.11.2).
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:nlohmann::json_abi_v3_11_2::basic_json\n";
}
