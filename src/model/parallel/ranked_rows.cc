// RankedStore: rows that go to files and other stores, and come from there. Rank 0 has all of them,
// the others' too, so that tiers know nothing of ranks.

#include <algorithm>
#include <new>

#include "model/parallel/ranked_store.h"

namespace kvick::model {

RankRows rank_rows_of(kv::Store& store) {
  const kv::StoreFacets facets = store.facets();
  RankRows moved = {.groups = {}, .checkpoints = facets.checkpoints != nullptr};
  if (facets.rows != nullptr) moved.groups = store.info().groups;
  return moved;
}

void add_rank_rows(MessageWriter& message, kv::Store& store) {
  const RankRows moved = rank_rows_of(store);
  message.add(moved.checkpoints);
  message.add_list(std::span<const kv::Shape>(moved.groups));
}

RankRows take_rank_rows(MessageReader& message) {
  RankRows moved;
  moved.checkpoints = message.take<bool>();
  moved.groups = message.take_list<kv::Shape>();
  return moved;
}

void RankedStore::read_rows(kv::SeqId seq, uint32_t first, uint32_t count,
                            std::span<std::byte> out) const {
  MessageWriter message = order(Order::kReadRows);
  message.add(seq);
  message.add(first);
  message.add(count);
  ranks_.tell(message.bytes());
  own_->facets().rows->read_rows(seq, first, count, out.first(count * token_bytes_[0]));
  size_t at = count * token_bytes_[0], rank = 1;
  bool all = true;
  for (const std::vector<std::byte>& answer : ranks_.answers()) {
    const size_t bytes = count * token_bytes_[rank++];
    const bool read = answer.size() == bytes + 1;
    if (read) std::copy(answer.begin() + 1, answer.end(), out.begin() + static_cast<ptrdiff_t>(at));
    all = all && read;
    at += bytes;
  }
  if (!all) throw std::bad_alloc();
}

// What one rank cannot take, none commits: the step is dropped by whoever hears of it.
void RankedStore::put_rows(kv::RowSink& own, std::span<const std::byte> rows) {
  uint64_t token_bytes = 0;
  for (const uint64_t bytes : token_bytes_) token_bytes += bytes;
  const uint64_t count = rows.size() / token_bytes;
  std::vector<std::span<const std::byte>> parts;
  for (size_t at = 0; const uint64_t bytes : token_bytes_) {
    parts.push_back(rows.subspan(at, count * bytes));
    at += count * bytes;
  }
  ranks_.tell(order(Order::kPutRows).bytes());
  ranks_.deal(std::span(parts).subspan(1));
  bool all = true;
  try {
    own.put(parts.front());
  } catch (const std::bad_alloc&) {
    all = false;
  }
  for (const std::vector<std::byte>& answer : ranks_.answers())
    all = MessageReader(answer).take<bool>() && all;
  if (!all) throw std::bad_alloc();
}

// A rank of a pipeline may have all layers with windows, or none of them.
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
