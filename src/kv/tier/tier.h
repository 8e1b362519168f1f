#pragma once
// A slower tier: bytes by address, moved to and from memory in the background, in any order.
//
// Whoever uses it calls start() from one thread at a time and finish() from one at a time; both may
// run at once. What cannot be moved is reported with the reason and hurts nothing else. A tier's
// contents end with it. The destructor waits for what is under way.

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
  uint64_t at = 0;            // in the tier, within what was reserved
  std::span<std::byte> data;  // the caller's, until the transfer is reported
  uint64_t tag = 0;           // the caller's name for it
};
struct Moved {
  uint64_t tag = 0;
  std::string error;  // one sentence why not all of it was moved; empty: it was
};

class Tier {
 public:
  virtual ~Tier() = default;
  // Room for bytes [at, at + bytes), both multiples of kTierPage, which nobody has. Error: the tier
  // is full, in a sentence; then nothing changed.
  virtual base::Status<> reserve(uint64_t at, uint64_t bytes) = 0;
  // Gives room back that no transfer uses.
  virtual void release(uint64_t at, uint64_t bytes) = 0;
  // Never waits for the tier; what cannot be started is reported by finish().
  virtual void start(std::span<const Transfer> transfers) = 0;
  // Appends the transfers that have ended, each once. If there are none, waits up to `seconds` for
  // the first; returns at once if nothing is under way.
  virtual void finish(double seconds, std::vector<Moved>& ended) = 0;
  // Capacity in bytes.
  virtual uint64_t most_bytes() const = 0;
  // How it works, for a person: "a file in /mnt/nvme by io_uring, direct".
  virtual std::string description() const = 0;
};

inline constexpr uint64_t kTierPage = 4096;

struct TierKind {
  std::string_view name, summary;
  std::span<const Option> options;  // besides those of all kinds
};
std::span<const TierKind> tier_kinds();
std::span<const Option> common_tier_options();

// What --kv-tier says, checked.
struct TierOptions {
  std::string kind;          // a TierKind's name
  uint64_t fast_bytes = 0;   // of frames in fast memory
  uint64_t most_bytes = 0;   // of the slower tier
  uint32_t unit_tokens = 0;  // that are moved together; 0: as suits direct I/O
  double timeout_s = 0;      // that a request waits for the tier at most
  double bytes_s = 0;        // ram: simulated bandwidth; 0: no limit
  double latency_s = 0;      // ram: simulated, of each transfer
  uint32_t node = 0;         // numa
  std::string dir;           // file
  enum class Io { kAuto, kRing, kThreads } io = Io::kAuto;
  enum class Direct { kAuto, kOn, kOff } direct = Direct::kAuto;
};
// Error: no such tier or option, or a value that makes no sense, named.
base::Result<TierOptions> read_tier(const Spec& spec);

// Transfers are of unit_bytes, from and to memory aligned to the largest power of two that divides
// them, 4096 at most. Error: no such folder or node, or the system refuses.
base::Result<std::unique_ptr<Tier>> make_tier(const TierOptions& options, size_t unit_bytes);

}  // namespace kvick::kv
