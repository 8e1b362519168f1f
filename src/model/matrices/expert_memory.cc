#include "model/matrices/expert_memory.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace kvick::model {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;   // bytes that a thread reads at a time
constexpr uint64_t kAhead = uint64_t{64} << 20;  // bytes that the system prefetches
constexpr uint32_t kHalving = 512;  // batches of a layer after which its uses are halved

uint64_t whole_lines(uint64_t bytes) {
  return (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
}

// Returns the bytes of an expert in memory: its matrices, each aligned to a cache line.
uint64_t bytes_of(const ExpertMatrices& matrices) {
  uint64_t bytes = 0;
  for (const kernels::Matrix* matrix : matrices) bytes += whole_lines(matrix->data.size());
  return bytes;
}

}  // namespace

uint32_t ExpertMemory::size_of(uint64_t bytes) {
  for (uint32_t i = 0; i < sizes_.size(); ++i)
    if (sizes_[i].bytes == bytes) return i;
  sizes_.push_back({.bytes = bytes, .memory = {}, .free = {}, .residents = {}});
  return static_cast<uint32_t>(sizes_.size() - 1);
}

uint32_t ExpertMemory::add_layer(std::span<const ExpertMatrices> experts, uint32_t used) {
  const auto first = static_cast<uint32_t>(experts_.size());
  layers_.push_back({.first = first, .experts = static_cast<uint32_t>(experts.size())});
  for (const ExpertMatrices& matrices : experts) {
    const uint64_t bytes = bytes_of(matrices);
    const uint32_t size = size_of(bytes);
    ++sizes_[size].experts;
    sizes_[size].used = std::max(sizes_[size].used, used);
    stats_.all_bytes += bytes;
    Expert expert = {.matrices = matrices, .in_file = {}, .size = size};
    for (size_t i = 0; i < matrices.size(); ++i) expert.in_file[i] = matrices[i]->data;
    experts_.push_back(expert);
  }
  stats_.all = static_cast<uint32_t>(experts_.size());
  return static_cast<uint32_t>(layers_.size() - 1);
}

base::Status<> ExpertMemory::make_slots() {
  stats_.limit_bytes = limit_;
  // Each size of experts gets slots for the fraction limit / all_bytes of its experts.
  uint64_t least = 0;
  const uint64_t all = stats_.all_bytes, limit = std::min(limit_, all);
  std::vector<uint32_t> slots;
  for (const Size& size : sizes_) {
    slots.push_back(static_cast<uint32_t>(limit * size.experts / all));
    least = std::max(least, (size.used * all + size.experts - 1) / size.experts);
  }
  if (limit_ < least)
    return base::fail(
        "{} MiB of memory are too few for the experts that a token needs in a layer: give at least "
        "{} MiB of the {} MiB that all experts take",
        limit_ >> 20, (least >> 20) + 1, stats_.all_bytes >> 20);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    sizes_[i].memory = base::Buffer(sizes_[i].bytes * slots[i]);
    for (uint32_t slot = slots[i]; slot > 0; --slot) sizes_[i].free.push_back(slot - 1);
  }
  return base::Done{};
}

base::Status<> ExpertMemory::fill(base::ThreadPool& pool) {
  KVICK_TRY_VOID(make_slots());
  std::vector<uint32_t> coming;
  uint32_t most = 0;
  for (const Layer& layer : layers_) most = std::max(most, layer.experts);
  for (uint32_t e = 0; e < most; ++e)
    for (const Layer& layer : layers_) {
      if (e >= layer.experts) continue;
      Expert& expert = experts_[layer.first + e];
      expert.slot = free_slot(sizes_[expert.size]);
      if (expert.slot != kNone) coming.push_back(layer.first + e);
    }
  const auto done = read(coming, pool);
  put(coming, done.ok());
  return done;
}

ExpertStats ExpertMemory::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Returns a free slot. If there is none, evicts the least used expert that no turn holds and
// returns its slot. kNone: turns hold all experts of this size.
uint32_t ExpertMemory::free_slot(Size& size) {
  if (!size.free.empty()) {
    const uint32_t slot = size.free.back();
    size.free.pop_back();
    return slot;
  }
  size_t least = size.residents.size();
  const auto later = [&](const Expert& a, const Expert& b) {
    return std::pair(a.uses, a.used_at) > std::pair(b.uses, b.used_at);
  };
  for (size_t i = 0; i < size.residents.size(); ++i) {
    const Expert& expert = experts_[size.residents[i]];
    if (expert.holders > 0) continue;
    if (least == size.residents.size() || later(experts_[size.residents[least]], expert)) least = i;
  }
  if (least == size.residents.size()) return kNone;
  Expert& expert = experts_[size.residents[least]];
  size.residents[least] = size.residents.back();
  size.residents.pop_back();
  // No thread reads these matrices any more: turns release experts while they hold the mutex.
  for (size_t i = 0; i < expert.matrices.size(); ++i) {
    auto* const begin = const_cast<std::byte*>(expert.in_file[i].data());
    expert.matrices[i]->data = {begin, expert.in_file[i].size()};
  }
  expert.state = State::kOnDisk;
  --stats_.resident;
  stats_.resident_bytes -= size.bytes;
  return std::exchange(expert.slot, kNone);
}

// Reads experts from the file into their slots.
base::Status<> ExpertMemory::read(std::span<const uint32_t> experts, base::ThreadPool& pool) const {
  struct Piece {
    std::span<const std::byte> from;
    std::byte* to;
  };
  std::vector<Piece> pieces;
  for (const uint32_t e : experts) {
    const Expert& expert = experts_[e];
    const Size& size = sizes_[expert.size];
    auto* to = const_cast<std::byte*>(size.memory.data()) + size.bytes * expert.slot;
    for (const auto& part : expert.in_file) {
      for (size_t at = 0; at < part.size(); at += kReadBytes)
        pieces.push_back({part.subspan(at, std::min(kReadBytes, part.size() - at)), to + at});
      to += whole_lines(part.size());
    }
  }
  std::mutex mutex;
  base::Status<> status = base::Done{};
  pool.parallel_for(pieces.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      auto done = file_.read(pieces[i].from, pieces[i].to);
      const std::lock_guard lock(mutex);
      if (!done.ok()) status = std::move(done);
    }
  });
  return status;
}

// Marks experts as in memory or, if they could not be read, frees their slots.
void ExpertMemory::put(std::span<const uint32_t> experts, bool read) {
  for (const uint32_t e : experts) {
    Expert& expert = experts_[e];
    Size& size = sizes_[expert.size];
    if (!read) {
      size.free.push_back(std::exchange(expert.slot, kNone));
      expert.state = State::kOnDisk;
      continue;
    }
    std::byte* to = size.memory.data() + size.bytes * expert.slot;
    for (size_t i = 0; i < expert.matrices.size(); ++i) {
      expert.matrices[i]->data = {to, expert.in_file[i].size()};
      to += whole_lines(expert.in_file[i].size());
    }
    expert.state = State::kHere;
    size.residents.push_back(e);
    ++stats_.resident;
    stats_.resident_bytes += size.bytes;
    stats_.read_bytes += size.bytes;
  }
}

void ExpertMemory::count_uses(uint32_t layer, const Turn& turn) {
  Layer& its = layers_[layer];
  if (++its.batches == kHalving) {
    its.batches = 0;
    for (uint32_t e = its.first; e < its.first + its.experts; ++e) experts_[e].uses /= 2;
  }
  ++now_;
  for (const uint32_t e : turn.experts_) {
    Expert& expert = experts_[e];
    expert.uses += 1;
    expert.used_at = now_;
    if (expert.state == State::kHere) {
      ++stats_.hits;
    } else {
      ++stats_.misses;
    }
  }
}

void ExpertMemory::let_go(Turn& turn) {
  for (const uint32_t i : turn.given_) --experts_[turn.experts_[i]].holders;
  if (!turn.given_.empty()) changed_.notify_all();
  turn.given_.clear();
}

// Gives the turn those of its waiting experts that are in memory. Returns false if there are none.
bool ExpertMemory::take_here(Turn& turn) {
  std::erase_if(turn.waiting_, [&](uint32_t i) {
    Expert& expert = experts_[turn.experts_[i]];
    if (expert.state != State::kHere) return false;
    ++expert.holders;
    turn.given_.push_back(i);
    return true;
  });
  return !turn.given_.empty();
}

// Assigns slots to as many of the turn's waiting experts as possible and returns those experts.
std::vector<uint32_t> ExpertMemory::take_slots(Turn& turn) {
  std::vector<uint32_t> coming;
  uint64_t bytes = 0;
  for (const uint32_t i : turn.waiting_) {
    Expert& expert = experts_[turn.experts_[i]];
    if (expert.state != State::kOnDisk) continue;
    // Takes no more than begin_reading has prefetched; the system reads the others while the turn
    // computes these.
    bytes += sizes_[expert.size].bytes;
    if (bytes > kAhead && !coming.empty()) break;
    expert.slot = free_slot(sizes_[expert.size]);
    if (expert.slot == kNone) break;
    expert.state = State::kComing;
    coming.push_back(turn.experts_[i]);
  }
  return coming;
}

// Prefetches the turn's waiting experts: the system reads them while the turn computes others.
void ExpertMemory::begin_reading(const Turn& turn) const {
  uint64_t bytes = 0;
  for (const uint32_t i : turn.waiting_) {
    const Expert& expert = experts_[turn.experts_[i]];
    bytes += sizes_[expert.size].bytes;
    if (bytes > kAhead) break;
    for (const auto& part : expert.in_file) file_.will_need(part);
  }
}

ExpertMemory::Turn::Turn(ExpertMemory& memory, uint32_t layer, std::span<const uint32_t> experts,
                         base::ThreadPool& pool)
    : memory_(memory), pool_(pool) {
  for (const uint32_t expert : experts) {
    waiting_.push_back(static_cast<uint32_t>(experts_.size()));
    experts_.push_back(memory_.layers_[layer].first + expert);
  }
  const std::lock_guard lock(memory_.mutex_);
  memory_.count_uses(layer, *this);
}

ExpertMemory::Turn::~Turn() {
  const std::lock_guard lock(memory_.mutex_);
  memory_.let_go(*this);
}

std::span<const uint32_t> ExpertMemory::Turn::next() {
  std::unique_lock lock(memory_.mutex_);
  memory_.let_go(*this);
  // A turn holds no experts while it waits, so at least one of several turns can proceed.
  while (!waiting_.empty()) {
    if (memory_.take_here(*this)) {
      lock.unlock();
      memory_.begin_reading(*this);
      return given_;
    }
    const std::vector<uint32_t> coming = memory_.take_slots(*this);
    if (coming.empty()) {
      memory_.changed_.wait(lock);
      continue;
    }
    lock.unlock();
    const auto done = memory_.read(coming, pool_);
    lock.lock();
    memory_.put(coming, done.ok());
    memory_.changed_.notify_all();
    if (!done.ok()) throw std::runtime_error(done.error().message);
  }
  return {};
}

}  // namespace kvick::model
