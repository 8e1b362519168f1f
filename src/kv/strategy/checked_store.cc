#include "kv/strategy/checked_store.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace kvick::kv {
namespace {

uint32_t number(SeqId id) { return static_cast<uint32_t>(id); }

}  // namespace

Opened CheckedStore::open(std::span<const Token> prompt, const Owner& owner) {
  check_idle("open");
  Entry entry = new_entry();  // first, so that adding the sequence cannot fail afterwards
  entry.mapped() = make_sequence(prompt, owner);
  const uint32_t cached = entry.mapped()->length;
  const uint32_t seen = std::max(cached, entry.mapped()->seen);
  return {.seq = add(std::move(entry)), .cached = cached, .seen = seen};
}

base::Result<SeqId, Shortage> CheckedStore::fork(SeqId seq) {
  check_idle("fork");
  if (std::string why = failure(seq); !why.empty())
    return Shortage{.needed_bytes = 1,
                    .what = fmt::format("fork of sequence {}: {}", number(seq), why)};
  try {
    Entry entry = new_entry();
    SequenceOr copy = copy_sequence(seq, find(seq));
    settle();
    if (!copy.ok()) return std::move(copy).error();
    entry.mapped() = std::move(copy).value();
    return add(std::move(entry));
  } catch (const std::bad_alloc&) {
    settle();
    return Shortage::system(fmt::format("a fork of sequence {}", number(seq)));
  }
}

void CheckedStore::close(SeqId seq) {
  check_idle("close");
  find(seq);
  free_sequence(std::move(sequences_.extract(seq).mapped()));
  settle();
}

base::Result<std::unique_ptr<Step>, Shortage> CheckedStore::begin(const Batch& batch) {
  check_idle("begin");
  try {
    std::vector<StepSlot> step_slots = step_slots_of(batch);
    if (std::optional<Shortage> shortage = unusable(step_slots)) return *shortage;
    StepOr step = start(std::move(step_slots));
    if (step.ok()) {
      live_ = step->get();
      return std::unique_ptr<Step>(std::move(step).value());
    }
    settle();
    return std::move(step).error();
  } catch (const std::bad_alloc&) {
    settle();
    return Shortage::system(fmt::format("a step of {} sequences", batch.slots.size()));
  }
}

uint32_t CheckedStore::length(SeqId seq) const { return find(seq).length; }

std::string CheckedStore::failure(SeqId seq) const {
  const Sequence& sequence = find(seq);
  return sequence.lost ? "no memory was left to keep its rows" : failure_of(sequence);
}

bool CheckedStore::ran_out_of_memory(SeqId seq) const {
  const Sequence& sequence = find(seq);
  return sequence.lost || ran_out_of_memory_of(sequence);
}

uint64_t CheckedStore::shrink(uint64_t bytes) {
  check_idle("shrink");
  const uint64_t given = evict(bytes);
  settle();
  return given;
}

Usage CheckedStore::usage() const {
  Usage usage = count();
  usage.wasted_bytes = usage.allocated_bytes - usage.used_bytes - usage.cached_bytes;
  usage.sequences = static_cast<uint32_t>(sequences_.size());
  return usage;
}

std::vector<MapEntry> CheckedStore::piece_each(
    base::FunctionRef<MapEntry(const Sequence&)> piece_of) const {
  std::vector<MapEntry> pieces;
  for_each_sequence([&](SeqId id, const Sequence& sequence) {
    MapEntry& piece = pieces.emplace_back(piece_of(sequence));
    piece.users = 1;
    piece.owner = id;
  });
  return pieces;
}

void CheckedStore::for_each_sequence(base::FunctionRef<void(SeqId, const Sequence&)> use) const {
  for (const auto& [id, sequence] : sequences_) use(id, *sequence);
}

uint64_t CheckedStore::tokens() const {
  uint64_t tokens = 0;
  for_each_sequence([&](SeqId, const Sequence& sequence) { tokens += sequence.length; });
  return tokens;
}

std::optional<Shortage> CheckedStore::shortage_of(uint64_t now, uint64_t then,
                                                  std::string_view what) const {
  const uint64_t needed = then - now;
  uint64_t free = setup_.limits.max_bytes - std::min(setup_.limits.max_bytes, now),
           of = setup_.limits.max_bytes;
  if (const Budget* const budget = setup_.limits.budget.get()) {
    const uint64_t held = held_bytes();
    KVICK_CHECK(held <= charge_.bytes(), "{} bytes are held, {} are charged", held,
                charge_.bytes());
    const uint64_t left = budget->free() + (charge_.bytes() - held) + cached_bytes();
    if (left < free) free = left, of = budget->bytes();
  }
  if (needed <= free) return std::nullopt;
  return not_free(what, needed, free, of);
}

std::optional<Shortage> CheckedStore::over_cap(uint64_t now, uint64_t then, std::string_view what) {
  for (;;) {
    if (auto shortage = shortage_of(now, then, what)) return shortage;
    const uint64_t wanted = held_bytes() + (then - now);
    if (charge_.raise_to(wanted)) return std::nullopt;
    // Evict this store's cached rows for the rest; retry if another store takes the memory first.
    const uint64_t has = charge_.bytes() + setup_.limits.budget->free();
    if (wanted > has) evict(wanted - has);
  }
}

uint64_t CheckedStore::charge_up_to(uint64_t bytes) {
  for (;;) {
    const uint64_t free =
        setup_.limits.budget != nullptr ? setup_.limits.budget->free() : UINT64_MAX;
    const uint64_t rise = std::min(bytes - std::min(bytes, charge_.bytes()), free);
    if (charge_.raise_to(charge_.bytes() + rise)) return charge_.bytes();
  }
}

CheckedStore::Entry CheckedStore::new_entry() const {
  KVICK_CHECK(next_id_ != UINT32_MAX, "all {} sequence ids were used", UINT32_MAX);
  Sequences one;
  one.emplace(SeqId{next_id_}, nullptr);
  return one.extract(one.begin());
}

SeqId CheckedStore::add(Entry entry) {
  sequences_.insert(std::move(entry));
  return SeqId{next_id_++};
}

Sequence& CheckedStore::find(SeqId seq) const {
  const auto found = sequences_.find(seq);
  KVICK_CHECK(found != sequences_.end(), "sequence {} is not open", number(seq));
  return *found->second;
}

void CheckedStore::check_idle(std::string_view call) const {
  KVICK_CHECK(live_ == nullptr, "{} while a step is alive", call);
}

std::vector<StepSlot> CheckedStore::step_slots_of(const Batch& batch) const {
  KVICK_CHECK(!batch.slots.empty(), "a batch of no slots");
  std::vector<StepSlot> step_slots;
  std::vector<SeqId> ids;
  uint64_t first = 0;
  for (const Slot& slot : batch.slots) {
    KVICK_CHECK(slot.fresh > 0, "sequence {} adds no row", number(slot.seq));
    KVICK_CHECK(slot.tokens.empty() || slot.tokens.size() == slot.fresh, "{} tokens for {} rows",
                slot.tokens.size(), slot.fresh);
    step_slots.push_back({.id = slot.seq,
                          .sequence = &find(slot.seq),
                          .fresh = slot.fresh,
                          .first = first,
                          .tokens = slot.tokens,
                          .whole = slot.whole,
                          .reads_all = slot.reads_all});
    ids.push_back(slot.seq);
    first += slot.fresh;
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  KVICK_CHECK(twice == ids.end(), "sequence {} is in the batch twice", number(*twice));
  return step_slots;
}

std::optional<Shortage> CheckedStore::unusable(std::span<const StepSlot> step_slots) const {
  const uint32_t most = most_tokens();
  for (const StepSlot& step_slot : step_slots) {
    if (std::string why = failure(step_slot.id); !why.empty())
      return Shortage{.needed_bytes = 1,
                      .what = fmt::format("sequence {}: {}", number(step_slot.id), why)};
    const uint64_t length = step_slot.sequence->length, rows = length + step_slot.fresh;
    if (rows <= most) continue;
    return Shortage{.needed_bytes = step_slot.fresh * shape().token_bytes(),
                    .available_bytes = (most - length) * shape().token_bytes(),
                    .what = fmt::format("sequence {}: {} tokens of a context of {}",
                                        number(step_slot.id), rows, most)};
  }
  return std::nullopt;
}

}  // namespace kvick::kv
