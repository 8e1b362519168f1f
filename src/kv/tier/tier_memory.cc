#include "kv/tier/tier_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numa.h>
#include <numaif.h>

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
  explicit Pacer(const Channel& channel) : channel_(channel) {}
  // Returns the time at which a transfer that begins now ends.
  double due(size_t bytes) {
    if (channel_.bytes_s == 0 && channel_.latency_s == 0) return 0;
    free_at_ = std::max(free_at_, base::steady_seconds());
    if (channel_.bytes_s > 0) free_at_ += static_cast<double>(bytes) / channel_.bytes_s;
    return free_at_ + channel_.latency_s;
  }

 private:
  Channel channel_;
  double free_at_ = 0;  // only the one moving thread uses it
};

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
  void release(uint64_t at, uint64_t bytes) override { memory_.release(at, bytes); }
  void start(std::span<const Transfer> transfers) override { queue_.start(transfers); }
  void finish(double seconds, std::vector<Moved>& ended) override { queue_.finish(seconds, ended); }
  uint64_t most_bytes() const override { return bytes_; }
  std::string description() const override { return description_; }

 private:
  TierQueue::Outcome move(const Transfer& transfer) {
    std::byte* const here = memory_.data() + transfer.at;
    if (transfer.way == Way::kRead)
      std::memcpy(transfer.data.data(), here, transfer.data.size());
    else
      std::memcpy(here, transfer.data.data(), transfer.data.size());
    return {.error = {}, .due = pacer_.due(transfer.data.size())};
  }

  Reservation memory_;
  uint64_t bytes_;
  std::string description_;
  Pacer pacer_;
  TierQueue queue_;  // last: its threads use the others
};

uint64_t whole_pages(uint64_t bytes) {
  const uint64_t page = base::page_bytes();
  return std::max(bytes / page * page, page);
}

}  // namespace

base::Result<std::unique_ptr<Tier>> make_ram_tier(const TierOptions& options) {
  const uint64_t bytes = whole_pages(options.most_bytes);
  KVICK_TRY(Reservation memory, Reservation::make(bytes, Pages::kSystem));
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
