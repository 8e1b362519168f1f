#include "kv/tier/frames.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/memory.h"

namespace kvick::kv {

Frames::Frames(std::unique_ptr<Tier> tier, Reservation memory, size_t frame_bytes, uint32_t most,
               double seconds)
    : frame_bytes_(frame_bytes),
      most_(most),
      seconds_(seconds),
      memory_(std::move(memory)),
      tier_(std::move(tier)) {}

FrameCounts Frames::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string Frames::failure(const TieredSequence& sequence) const {
  const std::lock_guard lock(mutex_);
  return sequence.failure;
}

void Frames::limit(uint32_t frames) {
  const std::lock_guard lock(mutex_);
  counts_.limit = std::min(most_, std::max(frames, counts_.taken));
}

// -- lists --

void Frames::push(FrameId id, FrameState state) {
  Frame& frame = frames_[id];
  List& to = list(state);
  frame.state = state;
  frame.before = to.last;
  frame.after = kNoFrame;
  (to.last == kNoFrame ? to.first : frames_[to.last].after) = id;
  to.last = id;
}

void Frames::remove(FrameId id) {
  Frame& frame = frames_[id];
  if (frame.state == FrameState::kNone) return;
  List& from = list(frame.state);
  (frame.before == kNoFrame ? from.first : frames_[frame.before].after) = frame.after;
  (frame.after == kNoFrame ? from.last : frames_[frame.after].before) = frame.before;
  frame.state = FrameState::kNone;
}

// -- frames --

// Returns an empty frame, or kNoFrame if there is none or the limit is reached.
FrameId Frames::unused() {
  if (counts_.taken >= counts_.limit) return kNoFrame;
  FrameId id = list(FrameState::kFree).first;
  if (id == kNoFrame) {
    id = static_cast<FrameId>(frames_.size());
    frames_.emplace_back();
  } else {
    remove(id);
  }
  ++counts_.taken;
  return id;
}

FrameId Frames::victim(Patience patience) {
  const auto idle = [this](FrameId id) { return id != kNoFrame && frames_[id].transfers == 0; };
  const FrameId passing = list(FrameState::kPassing).first, kept = list(FrameState::kKept).first;
  if (patience == Patience::kSpare || idle(passing)) return passing;
  return idle(kept) || passing == kNoFrame ? kept : passing;
}

void Frames::detach(FrameId id) {
  Frame& frame = frames_[id];
  remove(id);
  if (frame.unit.of != nullptr) frame.unit.of->frames[frame.unit.index] = kNoFrame;
  frame.unit = {};
}

// Frees a frame and returns its memory to the system if the frame consists of whole pages.
void Frames::free(FrameId id) {
  detach(id);
  if (frame_bytes_ % base::page_bytes() == 0) memory_.release(id * frame_bytes_, frame_bytes_);
  push(id, FrameState::kFree);
  --counts_.taken;
}

// Returns an empty frame that is on no list, or kNoFrame.
FrameId Frames::find(std::unique_lock<std::mutex>& lock, Patience patience) {
  const bool waits = patience == Patience::kWait;
  for (;;) {
    if (const FrameId id = unused(); id != kNoFrame) return id;
    const FrameId id = victim(patience);
    if (id != kNoFrame && frames_[id].transfers == 0) {
      detach(id);
      return id;
    }
    if (!waits || under_way_ == 0) return kNoFrame;
    const uint64_t before = under_way_;
    const bool some = await(lock, seconds_, [&] {
      return id != kNoFrame ? frames_[id].transfers == 0 : under_way_ < before;
    });
    if (!some) return kNoFrame;
  }
}

bool Frames::take(Unit unit) {
  std::unique_lock lock(mutex_);
  reserve_tasks(under_way_ + counts_.solid + 1);  // first: an exception would lose the found frame
  const FrameId id = find(lock, Patience::kWait);
  if (id == kNoFrame) return false;
  frames_[id].unit = unit;
  frames_[id].solid = true;
  ++counts_.solid;
  unit.of->frames[unit.index] = id;
  return true;
}

// -- transfers --

// Reserves memory for `count` concurrent transfers.
void Frames::reserve_tasks(size_t count) {
  if (tasks_.capacity() < count) tasks_.reserve(std::max(count, 2 * tasks_.capacity()));
  free_tags_.reserve(tasks_.capacity());
}

uint64_t Frames::begin(const Task& task) {
  uint64_t tag = tasks_.size();
  if (free_tags_.empty()) {
    tasks_.push_back(task);
  } else {
    tag = free_tags_.back();
    free_tags_.pop_back();
    tasks_[tag] = task;
  }
  ++frames_[task.frame].transfers;
  ++task.of->transfers;
  ++under_way_;
  (task.way == Way::kRead ? counts_.read_bytes : counts_.written_bytes) += frame_bytes_;
  return tag;
}

void Frames::end(Moved& moved) {
  const Task task = tasks_[moved.tag];
  free_tags_.push_back(moved.tag);
  Frame& frame = frames_[task.frame];
  --frame.transfers;
  --task.of->transfers;
  --under_way_;
  if (task.way == Way::kRead) frame.reading = false;
  if (!moved.error.empty()) fail(*task.of, moved.error);
}

void Frames::fail(TieredSequence& sequence, const std::string& why) {
  if (sequence.failure.empty()) sequence.failure = why;
}

void Frames::fail(TieredSequence& sequence) {
  const std::lock_guard lock(mutex_);
  fail(sequence,
       fmt::format("none of the {} frames of fast memory became free in time: raise fast=",
                   counts_.limit));
}

std::string Frames::too_slow() const {
  return fmt::format("the slower tier ({}) took longer than {:g} s", tier_->description(),
                     seconds_);
}

// Waits until done(). Returns false if that took too long, or if no transfer is under way that
// could change done(). The first waiting thread takes the ended transfers for all threads.
template <class Done>
bool Frames::await(std::unique_lock<std::mutex>& lock, double seconds, Done done) {
  if (!begun_.empty()) tier_->start(begun_);
  begun_.clear();
  const double until = base::steady_seconds() + seconds;
  std::vector<Moved> moved;
  while (!done()) {
    const double left = until - base::steady_seconds();
    if (left <= 0 || under_way_ == 0) return false;
    if (finishing_) {
      ended_.wait_for(lock, std::chrono::duration<double>(left));
      continue;
    }
    finishing_ = true;
    lock.unlock();
    moved.clear();
    try {
      tier_->finish(left, moved);
    } catch (...) {  // no memory for the ended transfers: the next waiting thread takes them
      lock.lock();
      finishing_ = false;
      ended_.notify_all();
      throw;
    }
    lock.lock();
    finishing_ = false;
    for (Moved& one : moved) end(one);
    ended_.notify_all();
  }
  return true;
}

void Frames::poll() {
  const std::lock_guard lock(mutex_);
  if (under_way_ == 0 || finishing_) return;
  std::vector<Moved> moved;
  tier_->finish(0, moved);
  for (Moved& one : moved) end(one);
}

void Frames::store(Unit unit, uint64_t at) {
  const std::lock_guard lock(mutex_);
  const FrameId id = unit.of->frames[unit.index];
  Frame& frame = frames_[id];
  KVICK_CHECK(frame.solid, "unit {} is stored already", unit.index);
  write(id, *unit.of, at);
  frame.solid = false;
  --counts_.solid;
  push(id, FrameState::kPassing);
}

void Frames::store_now(Unit unit, uint64_t at) {
  const std::lock_guard lock(mutex_);
  const FrameId id = unit.of->frames[unit.index];
  Frame& frame = frames_[id];
  KVICK_CHECK(frame.solid, "unit {} is stored already", unit.index);
  std::memcpy(tier_->memory() + at, data(id), frame_bytes_);
  counts_.written_bytes += frame_bytes_;
  frame.solid = false;
  --counts_.solid;
  push(id, FrameState::kPassing);
}

void Frames::copy(Unit unit, TieredSequence& to, uint64_t at) {
  const std::lock_guard lock(mutex_);
  reserve_tasks(under_way_ + counts_.solid + 1);
  write(unit.of->frames[unit.index], to, at);
}

// Starts to write a frame for `of`. If it throws, no transfer was started.
void Frames::write(FrameId id, TieredSequence& of, uint64_t at) {
  const Transfer transfer = {.way = Way::kWrite,
                             .at = at,
                             .data = {data(id), frame_bytes_},
                             .tag = begin({.frame = id, .way = Way::kWrite, .of = &of})};
  try {
    tier_->start({&transfer, 1});
  } catch (...) {
    counts_.written_bytes -= frame_bytes_;
    Moved none = {.tag = transfer.tag, .error = {}};
    end(none);
    throw;
  }
}

// -- pins --

bool Frames::pin(Unit unit, uint64_t at, Patience patience) {
  std::unique_lock lock(mutex_);
  FrameId id = unit.of->frames[unit.index];
  if (id == kNoFrame) {
    begun_.reserve(begun_.size() + 1);  // first: an exception would lose the found frame
    reserve_tasks(under_way_ + counts_.solid + 1);
    const FrameId found = find(lock, patience);
    // While this thread waited, another one may have read the unit.
    id = unit.of->frames[unit.index];
    if (id != kNoFrame && found != kNoFrame) free(found);
    if (id == kNoFrame) {
      if (found == kNoFrame) return false;
      id = unit.of->frames[unit.index] = found;
      frames_[id].unit = unit;
      frames_[id].reading = true;
      const uint64_t tag = begin({.frame = id, .way = Way::kRead, .of = unit.of});
      begun_.push_back({.way = Way::kRead, .at = at, .data = {data(id), frame_bytes_}, .tag = tag});
    }
  }
  Frame& frame = frames_[id];
  if (frame.pins++ == 0) remove(id);
  return true;
}

void Frames::submit() {
  const std::lock_guard lock(mutex_);
  if (begun_.empty()) return;
  tier_->start(begun_);
  begun_.clear();
}

void Frames::wait(std::span<const Unit> units) {
  std::unique_lock lock(mutex_);
  for (const Unit& unit : units) {
    const FrameId id = unit.of->frames[unit.index];
    if (!frames_[id].reading || !unit.of->failure.empty()) continue;
    if (!await(lock, seconds_, [&] { return !frames_[id].reading; })) fail(*unit.of, too_slow());
  }
}

void Frames::unpin(Unit unit, bool kept) {
  const std::lock_guard lock(mutex_);
  const FrameId id = unit.of->frames[unit.index];
  Frame& frame = frames_[id];
  KVICK_CHECK(frame.pins > 0, "unit {} is not pinned", unit.index);
  if (--frame.pins == 0 && !frame.solid) push(id, kept ? FrameState::kKept : FrameState::kPassing);
}

// -- giving back --

void Frames::wait_idle(TieredSequence& sequence) {
  std::unique_lock lock(mutex_);
  if (!await(lock, seconds_, [&] { return sequence.transfers == 0; })) fail(sequence, too_slow());
}

void Frames::wait_idle(TieredSequence& sequence, double seconds) {
  std::unique_lock lock(mutex_);
  await(lock, std::min(seconds, seconds_), [&] { return sequence.transfers == 0; });
}

bool Frames::drop(TieredSequence& sequence, size_t first) {
  const std::lock_guard lock(mutex_);
  bool all = sequence.transfers == 0;
  for (size_t index = first; index < sequence.frames.size(); ++index) {
    const FrameId id = sequence.frames[index];
    if (id == kNoFrame) continue;
    if (frames_[id].transfers > 0) {
      all = false;
      continue;
    }
    drop_frame(id);
  }
  return all;
}

bool Frames::drop(TieredSequence& sequence, size_t first, size_t end) {
  const std::lock_guard lock(mutex_);
  const auto of = std::span(sequence.frames).subspan(first, end - first);
  for (const FrameId id : of)
    if (id != kNoFrame && frames_[id].transfers > 0) return false;
  for (const FrameId id : of)
    if (id != kNoFrame) drop_frame(id);
  return true;
}

void Frames::drop_frame(FrameId id) {
  if (frames_[id].solid) --counts_.solid;
  frames_[id].solid = false;
  free(id);
}

uint32_t Frames::evict(uint32_t count) {
  std::unique_lock lock(mutex_);
  uint32_t given = 0;
  while (given < count) {
    const FrameId id = victim(Patience::kWait);
    if (id == kNoFrame) break;
    if (frames_[id].transfers == 0) {
      free(id);
      ++given;
    } else if (!await(lock, seconds_, [&] { return frames_[id].transfers == 0; })) {
      break;
    }
  }
  return given;
}

}  // namespace kvick::kv
