#pragma once
// Fast memory for the units of a slower tier: a bounded number of frames, each of which holds one
// unit. A frame is solid while its rows are in memory only; once they are stored in the tier it may
// be evicted for another unit, least recently used first, unless it is pinned.
//
// All calls may come from many threads.

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
  std::vector<FrameId> frames;  // per unit and [layer][kv head], kNoFrame if it has none
  // Per unit that is full: where it is in the slower tier, kNoExtent if nowhere. The first `gone`
  // units were given back.
  std::vector<uint32_t> extents;
  uint32_t gone = 0;
  std::string failure;     // why its rows are lost; empty: they are not
  uint32_t transfers = 0;  // under way on its behalf
};

// One unit of a sequence, by its index in `frames`.
struct Unit {
  TieredSequence* of = nullptr;
  size_t index = 0;
};

struct FrameCounts {
  uint32_t taken = 0, solid = 0, limit = 0;
  uint64_t read_bytes = 0, written_bytes = 0;  // from and to the tier, since it was made
};

class Frames {
 public:
  // memory: for `most` frames. seconds: the longest that a call waits for the tier.
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
  // Gives the unit a solid frame. False: none came free in time. A later store() of it needs no
  // further memory here, so it cannot throw std::bad_alloc.
  bool take(Unit unit);
  // Writes the solid frame of a unit to the tier; it counts as stored from then on.
  void store(Unit unit, uint64_t at);
  // Writes the pinned frame of a unit to another place, on behalf of another sequence.
  void copy(Unit unit, TieredSequence& to, uint64_t at);

  enum class Patience { kWait, kSpare };
  // Pins the frame of a unit that is at `at` in the tier, and begins to read it if it has none.
  // False: no frame came free; with kSpare: none is free or only passing through, right now.
  bool pin(Unit unit, uint64_t at, Patience patience);
  // Starts the reads that pin() has begun.
  void submit();
  // Waits until the frames of these pinned units hold their rows or their sequence has failed.
  void wait(std::span<const Unit> units);
  // kept: the frame is evicted only after those that are not.
  void unpin(Unit unit, bool kept);

  // Waits until a sequence has no transfers under way; if that takes too long it fails.
  void wait_idle(TieredSequence& sequence);
  // The same for at most `seconds`, after which it returns without failing the sequence.
  void wait_idle(TieredSequence& sequence, double seconds);
  // Fails a sequence because no frame came free in time.
  void fail(TieredSequence& sequence);
  // Gives back the frames of a sequence from unit index `first` on. False: some are still used by
  // transfers, and remain.
  bool drop(TieredSequence& sequence, size_t first);
  // The same of unit indices [first, end), none of which is pinned. False: some are used by
  // transfers, and all remain.
  bool drop(TieredSequence& sequence, size_t first, size_t end);
  // Frees up to `count` frames that are neither solid nor pinned; returns how many.
  uint32_t evict(uint32_t count);
  // Takes note of transfers that have ended.
  void poll();

 private:
  enum class FrameState : uint8_t { kNone, kFree, kPassing, kKept };  // of the lists below
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
    TieredSequence* of;  // on whose behalf
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
  bool finishing_ = false;  // one thread waits for the tier, the others for it
  FrameCounts counts_;
  std::vector<Frame> frames_;  // those that were ever taken
  List lists_[4];
  std::vector<Task> tasks_;  // by tag
  std::vector<uint64_t> free_tags_;
  uint64_t under_way_ = 0;
  std::vector<Transfer> begun_;  // reads that wait for submit()
  std::unique_ptr<Tier> tier_;   // last: it waits for transfers of the frames
};

}  // namespace kvick::kv
