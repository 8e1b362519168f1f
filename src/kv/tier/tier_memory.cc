#include "kv/tier/tier_memory.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <thread>

#include "base/memory.h"
#include "kv/rows/reservation.h"
#include "kv/tier/tier_queue.h"

namespace kvick::kv {
namespace {

// Simulated limits; 0: none.
struct Channel {
  double bytes_s = 0, latency_s = 0;
};

// Simulates the channel: a transfer takes its time after the one started before it. Latencies of
// several transfers overlap.
class Pacer {
 public:
  // When the first and the last byte of a transfer arrive; 0: at once.
  struct Times {
    double first = 0, last = 0;
  };
  explicit Pacer(const Channel& channel) : channel_(channel) {}
  // Returns the times of a transfer that is asked for now.
  Times take(uint64_t bytes) {
    if (channel_.bytes_s == 0 && channel_.latency_s == 0) return {};
    const std::lock_guard lock(mutex_);
    const double begins = std::max(free_at_, base::steady_seconds());
    free_at_ = begins;
    if (channel_.bytes_s > 0) free_at_ += static_cast<double>(bytes) / channel_.bytes_s;
    return {.first = begins + channel_.latency_s, .last = free_at_ + channel_.latency_s};
  }

 private:
  const Channel channel_;
  std::mutex mutex_;
  double free_at_ = 0;  // when the channel has moved all that was asked for
};

// A processor that waits for memory does not sleep, and a system wakes threads up late: only the
// longer part of a wait is slept.
void wait_until(double time) {
  constexpr double kSpun = 100e-6;
  const double asleep = time - base::steady_seconds() - kSpun;
  if (asleep > 0) std::this_thread::sleep_for(std::chrono::duration<double>(asleep));
  while (base::steady_seconds() < time) std::this_thread::yield();
}

class MemoryTier final : public Tier {
 public:
  MemoryTier(Reservation memory, uint64_t bytes, std::string description, const Channel& channel)
      : memory_(std::move(memory)),
        bytes_(bytes),
        description_(std::move(description)),
        pacer_(channel),
        queue_(1, [this](const Transfer& transfer) { return move(transfer); }) {}

  // The system allocates pages when they are first written. most_bytes already limits the total.
  base::Status<> reserve(uint64_t, uint64_t) override { return base::Done{}; }
  // Rooms of rows that are loaded do not end at pages: pages that two of them share stay.
  void release(uint64_t at, uint64_t bytes) override {
    const uint64_t page = base::page_bytes();
    const uint64_t first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    if (first < end) memory_.release(first, end - first);
  }
  void start(std::span<const Transfer> transfers) override { queue_.start(transfers); }
  void finish(double seconds, std::vector<Moved>& ended) override { queue_.finish(seconds, ended); }
  std::byte* memory() override { return memory_.data(); }
  void wait_for_channel(uint64_t bytes) override { wait_until(pacer_.take(bytes).first); }
  uint64_t most_bytes() const override { return bytes_; }
  std::string description() const override { return description_; }

 private:
  TierQueue::Outcome move(const Transfer& transfer) {
    std::byte* const here = memory_.data() + transfer.at;
    if (transfer.way == Way::kRead)
      std::memcpy(transfer.data.data(), here, transfer.data.size());
    else
      std::memcpy(here, transfer.data.data(), transfer.data.size());
    return {.error = {}, .due = pacer_.take(transfer.data.size()).last};
  }

  Reservation memory_;
  uint64_t bytes_;
  std::string description_;
  Pacer pacer_;
  TierQueue queue_;  // last: its threads use the others
};

// Rows that a policy chooses are far apart: with small pages nearly each would miss the TLB. Advice
// only: failing is fine.
void ask_for_huge_pages(const Reservation& memory, uint64_t bytes) {
  madvise(memory.data(), bytes, MADV_HUGEPAGE);
}

uint64_t whole_pages(uint64_t bytes) {
  const uint64_t page = base::page_bytes();
  return std::max(bytes / page * page, page);
}

}  // namespace

base::Result<std::unique_ptr<Tier>> make_ram_tier(const TierOptions& options) {
  const uint64_t bytes = whole_pages(options.most_bytes);
  KVICK_TRY(Reservation memory, Reservation::make(bytes, Pages::kSystem));
  ask_for_huge_pages(memory, bytes);
  std::string text = "a simulated pool in this machine's memory";
  if (options.bytes_s > 0) text += fmt::format(", {:g} GB/s", options.bytes_s / 1e9);
  if (options.latency_s > 0) text += fmt::format(", {:g} us", options.latency_s * 1e6);
  return std::unique_ptr<Tier>(std::make_unique<MemoryTier>(
      std::move(memory), bytes, std::move(text), Channel{options.bytes_s, options.latency_s}));
}

base::Result<std::unique_ptr<Tier>> make_numa_tier(const TierOptions& options) {
  if (numa_available() < 0)
    return base::fail("numa: this system has no memory policies, or forbids them");
  std::vector<int> nodes;
  for (int node = 0; node <= numa_max_node(); ++node)
    if (numa_node_size64(node, nullptr) > 0) nodes.push_back(node);
  const auto node = static_cast<int>(options.node);
  if (std::find(nodes.begin(), nodes.end(), node) == nodes.end())
    return base::fail("numa: there is no node {} with memory; this machine has {}", node,
                      fmt::join(nodes, ", "));
  long long free = 0;  // beyond this the system would kill the process
  numa_node_size64(node, &free);
  const uint64_t bytes =
      whole_pages(std::min(options.most_bytes, static_cast<uint64_t>(std::max(free, 0LL))));
  KVICK_TRY(Reservation memory, Reservation::make(bytes, Pages::kSystem));
  ask_for_huge_pages(memory, bytes);
  bitmask* const mask = numa_allocate_nodemask();
  numa_bitmask_setbit(mask, options.node);
  const long bound = mbind(memory.data(), bytes, MPOL_BIND, mask->maskp, mask->size + 1, 0);
  const int error = errno;
  numa_free_nodemask(mask);
  if (bound != 0)
    return base::fail("numa: memory cannot be bound to node {}: {}", node, std::strerror(error));
  return std::unique_ptr<Tier>(std::make_unique<MemoryTier>(
      std::move(memory), bytes, fmt::format("memory of NUMA node {}", node), Channel{}));
}

}  // namespace kvick::kv
