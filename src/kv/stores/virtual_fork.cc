// Forks of `virtual`.

#include <algorithm>
#include <utility>

#include "kv/stores/virtual_store.h"

namespace kvick::kv {

// The system gives huge pages only to anonymous memory (by default, files in memory get none).
// Sequences with huge pages are therefore copied on fork, which does not count as a fallback.
CheckedStore::SequenceOr VirtualStore::copy_sequence(SeqId id, const Sequence& from) {
  if (from.length == 0) return make_sequence({}, {});
  if (pages_ == Pages::kHuge) return ContiguousStore::copy_sequence(id, from);
  if (file_ == nullptr) return fall_back(id, from);
  VirtualSequence& source = mine(find(id));
  if (source.is_fork() && source.length - std::max(source.first, source.shared) >=
                              source.shared - std::min(source.first, source.shared))
    move_to_own_range(id, source);
  // Keep the last tenth of the mappings for the rest of the process, which would fail without them.
  // A fork can be copied instead, because ranges of the file share one mapping.
  if (mappings() < most_mappings_ / 10 * 9)
    if (auto mapping = source.memory.rows->range.copy_on_write(); mapping.ok())
      return share(id, source, std::move(mapping).value());
  return fall_back(id, source);
}

CheckedStore::SequenceOr VirtualStore::fall_back(SeqId id, const Sequence& from) {
  KVICK_TRY(std::unique_ptr<Sequence> copy, ContiguousStore::copy_sequence(id, from));
  ++fallbacks_;
  return copy;
}

// Makes a fork that maps the same rows. If `from` is itself a fork, the rows it added are in
// private pages that no other sequence can map; those are copied.
CheckedStore::SequenceOr VirtualStore::share(SeqId id, const VirtualSequence& from,
                                             Reservation mapping) {
  std::unique_ptr<Sequence> made = make_sequence({}, {});
  VirtualSequence& fork = mine(*made);
  fork.first = from.first;
  fork.shared = from.is_fork() && from.first < from.length ? from.shared : from.length;
  const uint64_t then = allocated_bytes_ + shape().layers * layer_bytes(fork, from.length);
  if (auto shortage = over_cap(allocated_bytes_, then,
                               fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
    return *shortage;
  from.memory.rows->forks.push_back(&fork);
  attach(fork, {.rows = from.memory.rows, .own = std::move(mapping)});
  fork.length = fork.shared;
  fork.touched_rows.assign(shape().layers, fork.shared);
  if (fork.shared < from.length) copy_rows(from, std::max(fork.first, fork.shared), fork);
  return made;
}

// For a fork that has added at least as many rows as it shares: moves it to its own range of the
// file, so that its forks can share all its rows. This copies at most twice as much as one of those
// forks would copy, and saves memory from the first fork on. Without room the fork stays where it
// is.
void VirtualStore::move_to_own_range(SeqId id, VirtualSequence& fork) {
  auto made = ContiguousStore::copy_sequence(id, fork);
  if (!made.ok()) return;
  VirtualSequence& copy = mine(**made);
  std::swap(fork.memory, copy.memory);
  std::swap(fork.layers, copy.layers);
  std::swap(fork.touched_rows, copy.touched_rows);
  std::swap(fork.settled_rows, copy.settled_rows);
  std::swap(fork.shared, copy.shared);
  std::vector<const VirtualSequence*>& forks = copy.memory.rows->forks;
  *std::find(forks.begin(), forks.end(), &fork) = &copy;
  fork.memory.rows->writer = &fork;
  free_sequence(std::move(made).value());
}

VirtualStore::Span VirtualStore::in_file(const VirtualSequence& sequence, uint32_t layer,
                                         bool is_v) const {
  if (!sequence.is_fork()) return written(sequence, sequence.touched_rows[layer], is_v);
  if (sequence.first >= sequence.shared) return {};
  return {begin_of(sequence.first, is_v), end_of(sequence.shared, is_v)};
}

void VirtualStore::for_each_gap(const SharedRows& rows, uint32_t layer, bool is_v, Span span,
                                base::FunctionRef<void(Span)> use) const {
  for (uint64_t at = span.begin; at < span.end;) {
    uint64_t needed_to = at, next = span.end;
    const auto look_at = [&](const VirtualSequence& sequence) {
      const Span needed = in_file(sequence, layer, is_v);
      if (needed.begin > at)
        next = std::min(next, needed.begin);
      else
        needed_to = std::max(needed_to, needed.end);
    };
    if (rows.writer != nullptr) look_at(*rows.writer);
    for (const VirtualSequence* fork : rows.forks) look_at(*fork);
    if (needed_to == at) use({at, next});
    at = needed_to > at ? needed_to : next;
  }
}

uint64_t VirtualStore::gap_bytes(const SharedRows& rows, uint32_t layer, bool is_v,
                                 Span span) const {
  uint64_t bytes = 0;
  for_each_gap(rows, layer, is_v, span, [&](Span gap) { bytes += gap.bytes(); });
  return bytes * shape().kv_heads;
}

void VirtualStore::release_gaps(const SharedRows& rows, uint32_t layer, bool is_v,
                                Span span) const {
  std::byte* const data = rows.range.data();
  const LayerRows regions = layer_rows(data, layer);
  for_each_gap(rows, layer, is_v, span, [&](Span gap) {
    for (uint32_t head = 0; head < regions.heads; ++head) {
      const auto region = static_cast<uint64_t>(regions.region(head, is_v) - data);
      rows.range.release(region + gap.begin, gap.bytes());
    }
  });
}

// Gives back file pages of the rows from `from` up to the first row that the sequence still sees.
void VirtualStore::give_back_in_file(const VirtualSequence& sequence, uint32_t from, uint32_t layer,
                                     bool is_v) {
  const SharedRows& rows = *sequence.memory.rows;
  const uint32_t to = sequence.first, shared = sequence.shared;
  if (sequence.is_fork() && from >= shared) return;
  Span span = {begin_of(from, is_v), begin_of(to, is_v)};
  if (sequence.is_fork() && to >= shared) span.end = end_of(shared, is_v);
  allocated_bytes_ -= gap_bytes(rows, layer, is_v, span);
  release_gaps(rows, layer, is_v, span);
}

// Returns the bytes of the file that its sequences need.
uint64_t VirtualStore::file_bytes(const SharedRows& rows) const {
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < shape().layers; ++layer)
    for (const bool is_v : {false, true}) {
      const Span region = {0, is_v ? v_bytes_ : k_bytes_};
      bytes += shape().kv_heads * region.bytes() - gap_bytes(rows, layer, is_v, region);
    }
  return bytes;
}

}  // namespace kvick::kv
