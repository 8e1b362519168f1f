#include "model/ranks/shared_ranks.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvick::model {
namespace {

constexpr size_t kPage = 4096;
// Floats of a rank's part in the region. Each rank has two parts: it writes the next exchange's
// part while others still read the current one.
constexpr size_t kFloats = Ranks::kMostGathered;
// Up to this many floats, each rank adds up all of them, which takes one meeting. More floats are
// divided among the ranks, which takes two meetings.
constexpr size_t kAddedByAll = 8192;

// Appends a piece to a message of `bytes` bytes. Returns whether there was memory for it.
bool append(std::vector<std::byte>& message, uint64_t bytes, std::span<const std::byte> piece) {
  try {
    message.reserve(bytes);
    message.insert(message.end(), piece.begin(), piece.end());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

constexpr size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

size_t SharedRanks::region_bytes(unsigned ranks) {
  return ranks * (whole_pages(sizeof(Cell)) + 2 * whole_pages(sizeof(Channel)) +
                  2 * kFloats * sizeof(float));
}

SharedRanks::SharedRanks(std::byte* region, unsigned rank, unsigned size, WaitingOptions waiting)
    : Ranks(rank, size), region_(region), waiting_(std::move(waiting)) {
  KVICK_CHECK(rank < size, "rank {} of {}", rank, size);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
}

// Does not construct the cell: zeros are its initial state, and other ranks may already use theirs.
SharedRanks::Cell& SharedRanks::cell(unsigned rank) const {
  return *std::launder(reinterpret_cast<Cell*>(region_ + rank * whole_pages(sizeof(Cell))));
}

SharedRanks::Channel& SharedRanks::channel(unsigned rank) const {
  std::byte* const first = region_ + size() * whole_pages(sizeof(Cell));
  return *std::launder(reinterpret_cast<Channel*>(first + rank * whole_pages(sizeof(Channel))));
}

float* SharedRanks::floats(unsigned rank) const {
  std::byte* const first =
      region_ + size() * (whole_pages(sizeof(Cell)) + 2 * whole_pages(sizeof(Channel)));
  return reinterpret_cast<float*>(first) + (2 * rank + exchanges_ % 2) * kFloats;
}

// Starts a new exchange unless one has begun. A rank that calls part() and then gives up is still
// in the same exchange as the others: all ranks must agree on which of a rank's two parts is in
// use.
void SharedRanks::begin_exchange() {
  if (!std::exchange(begun_, true)) ++exchanges_;
}

void SharedRanks::arrive() {
  begun_ = false;
  cell(rank()).arrived.store(++meetings_, std::memory_order_release);
}

void SharedRanks::await(unsigned rank) const {
  const Cell& other = cell(rank);
  waiting_.until([&] { return other.arrived.load(std::memory_order_acquire) >= meetings_; });
}

// Returns when all ranks have arrived, even if one of them gave up: the next part reuses memory
// that a rank which has not arrived may still read.
void SharedRanks::meet() {
  arrive();
  for (unsigned r = 0; r < size(); ++r) await(r);
  for (unsigned r = 0; r < size(); ++r)
    if (cell(r).gave_up[meetings_ % 2].load(std::memory_order_relaxed) == meetings_)
      throw RankFailed(fmt::format("rank {} could not compute its part of the step", r));
}

void SharedRanks::give_up() {
  begin_exchange();
  const uint64_t meeting = meetings_ + 1;
  cell(rank()).gave_up[meeting % 2].store(meeting, std::memory_order_relaxed);
  arrive();
  // Waits, because otherwise this rank could be two meetings ahead of a rank that has not yet seen
  // that it gave up.
  for (unsigned r = 0; r < size(); ++r) await(r);
}

float* SharedRanks::part(size_t count) {
  count_ = count;
  begin_exchange();
  // Allocates here, where running out of memory does no harm yet.
  const size_t added =
      std::max(std::min(count, kAddedByAll), std::min(count, kFloats) / size() + 1);
  if (total_.size() < added) total_.resize(added);
  if (count <= kFloats) return floats(rank());
  if (large_.size() < count) large_.resize(count);
  return large_.data();
}

// Sums floats that are in the region. The sum is in total_, or replaces the parts in the region.
void SharedRanks::sum_piece(size_t count) {
  meet();
  const bool all = count <= kAddedByAll;
  const size_t begin = all ? 0 : count * rank() / size();
  const size_t end = all ? count : count * (rank() + 1) / size();
  float* const total = total_.data();
  std::copy(floats(0) + begin, floats(0) + end, total);
  for (unsigned r = 1; r < size(); ++r) {
    const float* const part = floats(r) + begin;
    for (size_t i = 0; i < end - begin; ++i) total[i] += part[i];
  }
  if (all) return;
  // No other rank reads or writes these floats now.
  for (unsigned r = 0; r < size(); ++r) std::copy(total, total + (end - begin), floats(r) + begin);
  meet();
}

const float* SharedRanks::sum() {
  if (count_ <= kFloats) {
    sum_piece(count_);
    return count_ <= kAddedByAll ? total_.data() : floats(rank());
  }
  for (size_t first = 0; first < count_; first += kFloats) {
    if (first > 0) ++exchanges_;
    const size_t count = std::min(kFloats, count_ - first);
    std::copy_n(large_.data() + first, count, floats(rank()));
    sum_piece(count);
    std::copy_n(count <= kAddedByAll ? total_.data() : floats(rank()), count,
                large_.data() + first);
  }
  return large_.data();
}

void SharedRanks::gather(std::span<const float> own, Take take) {
  KVICK_CHECK(own.size() <= kMostGathered, "{} floats gathered at once", own.size());
  float* const room = part(own.size());
  if (!leads()) std::copy(own.begin(), own.end(), room);
  cell(rank()).given[exchanges_ % 2] = own.size();
  meet();
  if (!leads()) return;
  // The next exchange uses the other parts, and the one after it waits for this rank.
  for (unsigned r = 1; r < size(); ++r) take(r, {floats(r), cell(r).given[exchanges_ % 2]});
}

// Writes a message into the channel, piece by piece. read(pieces): returns whether all receivers
// have read the first `pieces` pieces of this rank.
void SharedRanks::send(Channel& own, std::span<const std::byte> message,
                       base::FunctionRef<bool(uint64_t pieces)> read) {
  KVICK_CHECK(!message.empty(), "an empty message of rank {}", rank());
  for (size_t first = 0; first < message.size(); first += Channel::kPiece) {
    const uint64_t before = own.pieces.load(std::memory_order_relaxed);
    waiting_.until([&] { return read(before); });
    const size_t count = std::min(Channel::kPiece, message.size() - first);
    if (first == 0) own.bytes = message.size();  // readers read it with the first piece
    std::memcpy(own.piece, message.data() + first, count);
    own.pieces.store(before + 1, std::memory_order_release);
  }
}

// Calls take(bytes of the whole message, piece) for each piece of the next message.
void SharedRanks::receive_pieces(
    const Channel& other, std::atomic<uint64_t>& read, bool idle,
    base::FunctionRef<void(uint64_t bytes, std::span<const std::byte>)> take) {
  uint64_t bytes = 0, taken = 0;  // bytes == 0: not known yet, because no message is empty
  do {
    const uint64_t before = read.load(std::memory_order_relaxed);
    const auto there = [&] { return other.pieces.load(std::memory_order_acquire) > before; };
    if (idle && bytes == 0)
      waiting_.idle_until(there);
    else
      waiting_.until(there);
    if (bytes == 0) bytes = other.bytes;
    const size_t count = std::min<uint64_t>(bytes - taken, Channel::kPiece);
    take(bytes, {other.piece, count});
    taken += count;
    read.store(before + 1, std::memory_order_release);
  } while (taken < bytes);
}

// Throws std::bad_alloc only after the whole message was read. Otherwise its rest would be taken
// for the next message.
std::vector<std::byte> SharedRanks::receive(const Channel& other, std::atomic<uint64_t>& read,
                                            bool idle) {
  std::vector<std::byte> message;
  bool has_memory = true;
  receive_pieces(other, read, idle, [&](uint64_t bytes, std::span<const std::byte> piece) {
    has_memory = has_memory && append(message, bytes, piece);
  });
  if (!has_memory) throw std::bad_alloc();
  return message;
}

void SharedRanks::pass_on(Passed passed) {
  const std::atomic<uint64_t>& read = cell((rank() + 1) % size()).passed;
  send(channel_to_next(rank()), passed_.bytes_of(passed),
       [&](uint64_t pieces) { return read.load(std::memory_order_acquire) >= pieces; });
}

// Throws std::bad_alloc only after all messages of the step were read. Otherwise they would be
// taken for those of the next step.
Ranks::Passed SharedRanks::take_over() {
  const Channel& other = channel_to_next((rank() + size() - 1) % size());
  std::atomic<uint64_t>& read = cell(rank()).passed;
  std::vector<std::byte> message;
  bool has_memory = true, begins = true, more = false;
  const auto take = [&](uint64_t bytes, std::span<const std::byte> piece) {
    if (std::exchange(begins, false)) more = PassedBytes::more_of(piece);
    has_memory = has_memory && append(message, bytes, piece);
  };
  receive_pieces(other, read, false, take);
  if (has_memory) return passed_.take(std::move(message));
  while (more) {
    begins = true;
    receive_pieces(other, read, false, take);
  }
  throw std::bad_alloc();
}

void SharedRanks::tell(std::span<const std::byte> message) {
  send(channel(rank()), message, [this](uint64_t pieces) {
    for (unsigned r = 1; r < size(); ++r)
      if (cell(r).heard.load(std::memory_order_acquire) < pieces) return false;
    return true;
  });
}

std::vector<std::byte> SharedRanks::hear() { return receive(channel(0), cell(rank()).heard, true); }

void SharedRanks::answer(std::span<const std::byte> message) {
  send(channel(rank()), message, [this](uint64_t pieces) {
    return cell(rank()).taken.load(std::memory_order_acquire) >= pieces;
  });
}

// Throws std::bad_alloc only after the answers of all ranks were read. Otherwise they would be
// taken for those to the next order.
std::vector<std::vector<std::byte>> SharedRanks::answers(bool patient) {
  std::vector<std::vector<std::byte>> all;
  bool has_memory = true;
  for (unsigned r = 1; r < size(); ++r) {
    try {
      std::vector<std::byte> answer = receive(channel(r), cell(r).taken, patient);
      all.push_back(std::move(answer));
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
  }
  if (!has_memory) throw std::bad_alloc();
  return all;
}

// All ranks read the same memory, so all of them hear every part: first their lengths, then each
// part.
void SharedRanks::deal(std::span<const std::span<const std::byte>> parts) {
  KVICK_CHECK_EQ(parts.size() + 1, size());
  if (parts.empty()) return;
  std::vector<uint64_t> bytes;
  for (const std::span<const std::byte> part : parts) bytes.push_back(part.size());
  tell(std::as_bytes(std::span(bytes)));
  for (const std::span<const std::byte> part : parts)
    if (!part.empty()) tell(part);
}

// Throws std::bad_alloc only after all parts were read, like answers().
std::vector<std::byte> SharedRanks::dealt() {
  std::atomic<uint64_t>& heard = cell(rank()).heard;
  const std::vector<std::byte> lengths = receive(channel(0), heard, false);
  std::vector<std::byte> own;
  bool has_memory = true;
  for (unsigned r = 1; r < size(); ++r) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, lengths.data() + (r - 1) * sizeof bytes, sizeof bytes);
    if (bytes == 0) continue;
    if (r != rank()) {
      receive_pieces(channel(0), heard, false, [](uint64_t, std::span<const std::byte>) {});
      continue;
    }
    try {
      own = receive(channel(0), heard, false);
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
  }
  if (!has_memory) throw std::bad_alloc();
  return own;
}

}  // namespace kvick::model
