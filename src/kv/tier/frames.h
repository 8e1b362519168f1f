#pragma once
// Fast memory for the units of a slower tier: a bounded number of frames, each holding one unit. A
// solid frame holds rows that are not in the tier yet. Once they are stored there, the frame may be
// evicted for another unit, least recently used first, unless it is pinned.
//
// Any thread may call any function at any time.

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "kv/rows/reservation.h"
#include "kv/strategy/checked_store.h"
#include "kv/tier/tier.h"

namespace kvick::kv {

using FrameId = uint32_t;
inline constexpr FrameId kNoFrame = UINT32_MAX;
inline constexpr uint32_t kNoExtent = UINT32_MAX;

// What a store over a slower tier keeps for a sequence. Frames writes `frames`, `failure` and
// `transfers`.
struct TieredSequence : Sequence {
  std::vector<FrameId> frames;  // [unit][layer][kv head]; kNoFrame: not in a frame
  // Per full unit: its extent in the tier, or kNoExtent. The first `gone` units were given back.
  std::vector<uint32_t> extents;
  uint32_t gone = 0;
  std::string failure;     // why its rows are lost, or empty
  uint32_t transfers = 0;  // transfers under way for it
};

// One unit of a sequence in one layer and KV head, by its index in `frames`.
struct Unit {
  TieredSequence* of = nullptr;
  size_t index = 0;
};

struct FrameCounts {
  uint32_t taken = 0, solid = 0, limit = 0;
  uint64_t read_bytes = 0, written_bytes = 0;  // from and to the tier since it was made
};

class Frames {
 public:
  // memory: for `most` frames. seconds: longest time that a call waits for the tier.
  Frames(std::unique_ptr<Tier> tier, Reservation memory, size_t frame_bytes, uint32_t most,
         double seconds);

  Tier& tier() { return *tier_; }
  size_t frame_bytes() const { return frame_bytes_; }
  uint32_t most() const { return most_; }
  std::byte* data(FrameId id) const { return memory_.data() + id * frame_bytes_; }
  FrameCounts counts() const;
  std::string failure(const TieredSequence& sequence) const;

  // Limits the number of frames taken at once; never below the number taken now.
  void limit(uint32_t frames);
  // Gives the unit a solid frame. False: no frame became free in time. A later store() of the unit
  // allocates nothing here, so it cannot throw std::bad_alloc.
  bool take(Unit unit);
  // Starts to write a unit's solid frame to the tier; the frame counts as stored from then on.
  void store(Unit unit, uint64_t at);
  void store_now(Unit unit, uint64_t at);  // the same, but into Tier::memory(), and at once
  // Starts to write a unit's pinned frame to another place, for another sequence.
  void copy(Unit unit, TieredSequence& to, uint64_t at);

  enum class Patience { kWait, kSpare };
  // Pins the frame of a unit stored at `at`. If it has none, finds one and prepares a read for
  // submit(). False: no frame became free in time; with kSpare: none is free or kPassing now.
  bool pin(Unit unit, uint64_t at, Patience patience);
  // Starts the reads that pin() prepared.
  void submit();
  // Waits until the frames of these pinned units hold their rows or their sequence has failed.
  void wait(std::span<const Unit> units);
  // kept: evict this frame only after all frames that are not kept.
  void unpin(Unit unit, bool kept);

  // Waits until a sequence has no transfers under way; fails the sequence if that takes too long.
  void wait_idle(TieredSequence& sequence);
  // Waits for this at most `seconds`, then returns without failing the sequence.
  void wait_idle(TieredSequence& sequence, double seconds);
  // Fails a sequence because no frame came free in time.
  void fail(TieredSequence& sequence);
  // Gives back the frames of a sequence from unit index `first` on. False: transfers still use some
  // of them; those remain.
  bool drop(TieredSequence& sequence, size_t first);
  // Gives back the frames of unit indices [first, end), none of which is pinned. False: transfers
  // still use some of them; then all remain.
  bool drop(TieredSequence& sequence, size_t first, size_t end);
  // Frees up to `count` frames that are neither solid nor pinned; returns the number freed.
  uint32_t evict(uint32_t count);
  // Processes the transfers that have ended.
  void poll();

 private:
  enum class FrameState : uint8_t { kNone, kFree, kPassing, kKept };  // the list that a frame is on
  struct Frame {
    Unit unit;
    uint32_t pins = 0, transfers = 0;
    bool solid = false, reading = false;
    FrameState state = FrameState::kNone;
    FrameId before = kNoFrame, after = kNoFrame;
  };
  struct List {
    FrameId first = kNoFrame, last = kNoFrame;
  };
  struct Task {
    FrameId frame;
    Way way;
    TieredSequence* of;  // the sequence for which it moves
  };

  List& list(FrameState state) { return lists_[static_cast<size_t>(state)]; }
  void push(FrameId id, FrameState state);
  void remove(FrameId id);
  FrameId find(std::unique_lock<std::mutex>& lock, Patience patience);
  FrameId unused();
  FrameId victim(Patience patience);
  void detach(FrameId id);
  void free(FrameId id);
  void drop_frame(FrameId id);
  void reserve_tasks(size_t count);
  uint64_t begin(const Task& task);
  void end(Moved& moved);
  void write(FrameId id, TieredSequence& of, uint64_t at);
  void fail(TieredSequence& sequence, const std::string& why);
  std::string too_slow() const;
  template <class Done>
  bool await(std::unique_lock<std::mutex>& lock, double seconds, Done done);

  const size_t frame_bytes_;
  const uint32_t most_;
  const double seconds_;
  Reservation memory_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool finishing_ = false;  // one thread waits for the tier, the others wait for that thread
  FrameCounts counts_;
  std::vector<Frame> frames_;  // all frames that were ever taken
  List lists_[4];
  std::vector<Task> tasks_;  // indexed by tag
  std::vector<uint64_t> free_tags_;
  uint64_t under_way_ = 0;
  std::vector<Transfer> begun_;  // reads that submit() will start
  std::unique_ptr<Tier> tier_;   // last: its destructor waits for transfers of the frames
};

}  // namespace kvick::kv
