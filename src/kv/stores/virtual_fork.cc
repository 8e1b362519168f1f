// Forks of `virtual`.

#include <utility>

#include "kv/stores/virtual_store.h"

namespace kvick::kv {

// Huge pages are the system's to give only outside of files (its default for files in memory is to
// have none), so sequences of them are copied, and that is no surprise.
CheckedStore::SequenceOr VirtualStore::copy_sequence(SeqId id, const Sequence& from) {
  if (from.length == 0) return make_sequence({}, {});
  if (pages_ == Pages::kHuge) return ContiguousStore::copy_sequence(id, from);
  if (file_ == nullptr) return fall_back(id, from);
  VirtualSequence& source = mine(find(id));
  if (source.is_fork() && source.length - source.shared >= source.shared)
    move_to_own_range(id, source);
  // The last tenth is for the others in this process: they would fail, and a fork can be copied,
  // since ranges of the file share a mapping.
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

// A fork of the same rows. If `from` is a fork itself, what it added is in pages of its own, which
// nobody else can map: that is copied.
CheckedStore::SequenceOr VirtualStore::share(SeqId id, const VirtualSequence& from,
                                             Reservation mapping) {
  const uint32_t shared = from.is_fork() ? from.shared : from.length;
  const uint64_t then = allocated_bytes_ + shape().layers * layer_bytes(shared, from.length);
  if (auto shortage = over_cap(allocated_bytes_, then,
                               fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
    return *shortage;
  std::unique_ptr<Sequence> made = make_sequence({}, {});
  VirtualSequence& fork = mine(*made);
  from.memory.rows->forks.push_back(shared);
  attach(fork, {.rows = from.memory.rows, .own = std::move(mapping)});
  fork.length = fork.shared = shared;
  fork.touched_rows.assign(shape().layers, shared);
  if (shared < from.length) copy_rows(from, shared, fork);
  return made;
}

// Of a fork that has added as much as it shares or more, so that its own forks share all of its
// rows. All are copied now, at most twice what each of those would copy, and less is held from the
// first of them on. Without room for that it stays as it is.
void VirtualStore::move_to_own_range(SeqId id, VirtualSequence& fork) {
  auto made = ContiguousStore::copy_sequence(id, fork);
  if (!made.ok()) return;
  VirtualSequence& copy = mine(**made);
  std::swap(fork.memory, copy.memory);
  std::swap(fork.layers, copy.layers);
  std::swap(fork.touched_rows, copy.touched_rows);
  std::swap(fork.settled_rows, copy.settled_rows);
  std::swap(fork.shared, copy.shared);
  fork.memory.rows->writer = &fork;
  free_sequence(std::move(made).value());
}

}  // namespace kvick::kv
