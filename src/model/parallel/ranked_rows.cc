// RankedStore: rows that are written to files and shared stores, or read from them. Rank 0 collects
// the rows of all ranks and distributes each rank's own, so that a folder or a shared store is used
// as by a single process.

#include <algorithm>
#include <new>
#include <numeric>

#include "model/parallel/ranked_store.h"

namespace kvick::model {

RankRows rank_rows_of(kv::Store& store) {
  const kv::StoreFacets facets = store.facets();
  RankRows rows;
  if (facets.rows != nullptr) rows.groups = store.info().groups;
  if (facets.checkpoints == nullptr) return rows;
  rows.checkpoints = true;
  rows.only_at_end = facets.checkpoints->only_at_end();
  rows.state_bytes = facets.checkpoints->state_bytes();
  return rows;
}

void add_rank_rows(MessageWriter& message, kv::Store& store) {
  const RankRows rows = rank_rows_of(store);
  message.add(rows.checkpoints);
  message.add(rows.only_at_end);
  message.add(rows.state_bytes);
  message.add_list(std::span<const kv::Shape>(rows.groups));
}

RankRows take_rank_rows(MessageReader& message) {
  RankRows rows;
  rows.checkpoints = message.take<bool>();
  rows.only_at_end = message.take<bool>();
  rows.state_bytes = message.take<uint64_t>();
  rows.groups = message.take_list<kv::Shape>();
  return rows;
}

namespace {

// Cuts `all` into a part for each rank, of times * bytes[rank] bytes.
std::vector<std::span<const std::byte>> parts_of(std::span<const std::byte> all,
                                                 std::span<const uint64_t> bytes, uint64_t times) {
  std::vector<std::span<const std::byte>> parts;
  for (size_t at = 0; const uint64_t one : bytes) {
    parts.push_back(all.subspan(at, one * times));
    at += one * times;
  }
  return parts;
}

uint64_t sum_of(std::span<const uint64_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

}  // namespace

// Reads the other ranks' answers, times * bytes[rank] bytes each, into `out` after rank 0's part.
// Call it before reading rank 0's part, which may throw: unread answers would be taken for those of
// a later order.
void RankedStore::collect(std::span<const uint64_t> bytes, uint64_t times,
                          std::span<std::byte> out) const {
  size_t at = bytes[0] * times, rank = 1;
  bool all = true;
  for (const std::vector<std::byte>& answer : ranks_.answers()) {
    const size_t expected = bytes[rank++] * times;
    const bool read = MessageReader(answer).take<bool>() && answer.size() == expected + 1;
    if (read) std::copy(answer.begin() + 1, answer.end(), out.begin() + static_cast<ptrdiff_t>(at));
    all = all && read;
    at += expected;
  }
  if (!all) throw std::bad_alloc();
}

// Throws if any rank could not take its part. The caller then drops the step or closes the
// sequence.
void RankedStore::deal(const MessageWriter& order,
                       std::span<const std::span<const std::byte>> parts,
                       base::FunctionRef<void(std::span<const std::byte>)> own) {
  ranks_.tell(order.bytes());
  ranks_.deal(parts.subspan(1));
  bool all = true;
  try {
    own(parts.front());
  } catch (const std::bad_alloc&) {
    all = false;
  }
  for (const std::vector<std::byte>& answer : ranks_.answers())
    all = MessageReader(answer).take<bool>() && all;
  if (!all) throw std::bad_alloc();
}

void RankedStore::read_rows(kv::SeqId seq, uint32_t first, uint32_t count,
                            std::span<std::byte> out) const {
  MessageWriter message = order(Order::kReadRows);
  message.add(seq);
  message.add(first);
  message.add(count);
  ranks_.tell(message.bytes());
  collect(token_bytes_, count, out);
  own_->facets().rows->read_rows(seq, first, count, out.first(count * token_bytes_[0]));
}

void RankedStore::put_rows(kv::RowSink& own, std::span<const std::byte> rows) {
  const uint64_t token_bytes = sum_of(token_bytes_);
  const uint64_t count = token_bytes == 0 ? 0 : rows.size() / token_bytes;
  deal(order(Order::kPutRows), parts_of(rows, token_bytes_, count),
       [&](std::span<const std::byte> part) { own.put(part); });
}

uint64_t RankedStore::state_bytes() const { return sum_of(state_bytes_); }

void RankedStore::read_state(kv::SeqId seq, std::span<std::byte> out) const {
  MessageWriter message = order(Order::kReadState);
  message.add(seq);
  ranks_.tell(message.bytes());
  collect(state_bytes_, 1, out);
  if (state_bytes_[0] > 0) own_->facets().checkpoints->read_state(seq, out.first(state_bytes_[0]));
}

void RankedStore::put_state(kv::SeqId seq, std::span<const std::byte> state) {
  MessageWriter message = order(Order::kPutState);
  message.add(seq);
  deal(message, parts_of(state, state_bytes_, 1), [&](std::span<const std::byte> part) {
    if (!part.empty()) own_->facets().checkpoints->put_state(seq, part);
  });
}

// Returns the largest first row of all ranks: in a pipeline, one rank may have all the layers with
// windows.
uint32_t RankedStore::first_row(kv::SeqId seq) const {
  uint32_t first = own_->facets().rows->first_row(seq);
  if (!windows_) return first;
  MessageWriter message = order(Order::kFirstRow);
  message.add(seq);
  ranks_.tell(message.bytes());
  for (const std::vector<std::byte>& answer : ranks_.answers())
    first = std::max(first, MessageReader(answer).take<uint32_t>());
  return first;
}

void RankedStore::hold_rows(kv::SeqId seq, uint32_t from) {
  MessageWriter message = order(Order::kHoldRows);
  message.add(seq);
  message.add(from);
  ranks_.tell(message.bytes());
  own_->facets().rows->hold_rows(seq, from);
}

void RankedStore::keep(kv::SeqId seq, uint32_t at) {
  MessageWriter message = order(Order::kKeep);
  message.add(seq);
  message.add(at);
  ranks_.tell(message.bytes());
  if (kv::Checkpoints* const own = own_->facets().checkpoints) own->keep(seq, at);
}

}  // namespace kvick::model
