#pragma once
// A slower tier: bytes by address, moved to and from memory in the background, in any order.
//
// At most one thread at a time calls start(), and at most one calls finish(); the two may run at
// once. A transfer that fails is reported with the reason and affects nothing else. A tier's
// contents end with it. The destructor waits for the transfers under way.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

enum class Way { kRead, kWrite };  // from the tier into memory; from memory into the tier

struct Transfer {
  Way way = Way::kRead;
  uint64_t at = 0;            // address in the tier, within reserved room
  std::span<std::byte> data;  // owned by the caller, in use until the transfer is reported
  uint64_t tag = 0;           // chosen by the caller
};
struct Moved {
  uint64_t tag = 0;
  std::string error;  // one sentence on why it was not moved completely; empty: it was
};

class Tier {
 public:
  virtual ~Tier() = default;
  // Reserves bytes [at, at + bytes), both multiples of kTierPage and not yet reserved. Error: one
  // sentence on why the tier is full; nothing changes.
  virtual base::Status<> reserve(uint64_t at, uint64_t bytes) = 0;
  // Gives back room that no transfer uses.
  virtual void release(uint64_t at, uint64_t bytes) = 0;
  // Starts transfers without waiting for the tier. finish() reports those that cannot start.
  virtual void start(std::span<const Transfer> transfers) = 0;
  // Appends the transfers that have ended, each once. If none has, waits up to `seconds` for the
  // first; returns at once if nothing is under way.
  virtual void finish(double seconds, std::vector<Moved>& ended) = 0;
  // Returns the bytes at address 0, if a processor can load them where they are; otherwise null.
  virtual std::byte* memory() { return nullptr; }
  // Waits until a simulated channel begins to carry `bytes` that a processor loads from memory() or
  // writes to it. Their transfer then overlaps with the processor's work. Any thread may call this.
  virtual void wait_for_channel(uint64_t bytes) { static_cast<void>(bytes); }
  // Capacity in bytes.
  virtual uint64_t most_bytes() const = 0;
  // Describes how it works, for a person: "a file in /mnt/nvme by io_uring, direct".
  virtual std::string description() const = 0;
};

inline constexpr uint64_t kTierPage = 4096;

struct TierKind {
  std::string_view name, summary;
  std::span<const Option> options;  // in addition to the options of all kinds
};
std::span<const TierKind> tier_kinds();
std::span<const Option> common_tier_options();

// The checked values of --kv-tier.
struct TierOptions {
  std::string kind;          // a TierKind's name
  uint64_t fast_bytes = 0;   // size of all frames in fast memory
  uint64_t most_bytes = 0;   // capacity of the slower tier
  uint32_t unit_tokens = 0;  // tokens moved together; 0: as suits direct I/O
  double timeout_s = 0;      // longest time that a request waits for the tier
  double bytes_s = 0;        // ram: simulated bandwidth; 0: no limit
  double latency_s = 0;      // ram: simulated, of each transfer
  uint32_t node = 0;         // numa: the NUMA node
  // ram, numa: copy rows to fast memory, or load them from where they are; kAuto: load them where a
  // policy chooses rows.
  enum class Access { kAuto, kCopy, kLoad } access = Access::kAuto;
  std::string dir;  // file: the folder
  enum class Io { kAuto, kRing, kThreads } io = Io::kAuto;
  enum class Direct { kAuto, kOn, kOff } direct = Direct::kAuto;
};
// Error: no such tier or option, or an invalid value; the message names it.
base::Result<TierOptions> read_tier(const Spec& spec);

// Makes a tier for transfers of unit_bytes. Memory is aligned to the largest power of two that
// divides unit_bytes, at most 4096. Error: no such folder or node, or the system refuses.
base::Result<std::unique_ptr<Tier>> make_tier(const TierOptions& options, size_t unit_bytes);

}  // namespace kvick::kv
