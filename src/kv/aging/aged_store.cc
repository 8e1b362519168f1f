#include "kv/aging/aged_store.h"

#include <map>
#include <new>

#include "kv/aging/aged_step.h"

namespace kvick::kv {

CheckedStore::SequenceOr AgedStore::copy_sequence(SeqId id, const Sequence& from) {
  const auto& source = static_cast<const AgedSequence&>(from);
  const std::string what = fmt::format("fork of sequence {}", static_cast<uint32_t>(id));
  const uint32_t length = source.length, rows = buffer_rows(length);
  const uint64_t own = rows * shape().token_bytes();
  if (auto shortage = claim(own, what)) return *shortage;
  auto copy = std::make_unique<AgedSequence>();
  copy->length = length;
  copy->first = source.first;
  try {
    if (rows > 0) copy->recent = RowBuffer(shape(), rows);
  } catch (const std::bad_alloc&) {
    return refused(own);
  }
  const auto old = old_->fork(source.old);
  if (!old.ok()) return joined(old.error(), own, what);
  copy->old = *old;
  own_bytes_ += own;
  for (uint32_t row = aging_.old_rows(length); row < length; ++row)
    copy->recent.take(source.recent, row % source.recent.rows(), row % rows);
  copied_bytes_ += (length - aging_.old_rows(length)) * shape().token_bytes();
  return std::unique_ptr<Sequence>(std::move(copy));
}

// Returns the bytes that a step needs at its peak, while the old buffers of growing sequences are
// not freed yet.
uint64_t AgedStore::growth_bytes(std::span<const StepSlot> step_slots) const {
  uint64_t rows = 0;
  for (const StepSlot& step_slot : step_slots) {
    if (grows(step_slot)) rows += buffer_rows(step_slot);
    if (!fits(step_slot)) rows += step_slot.fresh;
  }
  return rows * shape().token_bytes();
}

AgingMove AgedStore::passage_of(std::span<const StepSlot> step_slots) const {
  AgingMove passage;
  size_t rows = 0;
  for (uint32_t slot = 0; slot < step_slots.size(); ++slot) {
    const uint32_t length = step_slots[slot].sequence->length;
    const uint32_t old = aging_.old_rows(length + step_slots[slot].fresh) - aging_.old_rows(length);
    if (old == 0) continue;
    passage.slots.push_back(slot);
    passage.old.push_back(
        {.seq = mine(*step_slots[slot].sequence).old, .fresh = old, .tokens = {}});
    rows += old;
  }
  passage.k.resize(rows * shape().kv_heads * shape().dim(false));
  passage.v.resize(rows * shape().kv_heads * shape().dim(true));
  return passage;
}

void AgedStore::grow(AgedSequence& sequence, RowBuffer buffer) {
  own_bytes_ += buffer.bytes() - sequence.recent.bytes();
  for (uint32_t row = 0; row < sequence.length; ++row) buffer.take(sequence.recent, row, row);
  copied_bytes_ += sequence.length * shape().token_bytes();
  sequence.recent = std::move(buffer);
}

// Returns the recent rows of each sequence, then the pieces of the inner store.
std::vector<MapEntry> AgedStore::map() const {
  std::vector<MapEntry> pieces = piece_each([&](const Sequence& sequence) -> MapEntry {
    const RowBuffer& recent = static_cast<const AgedSequence&>(sequence).recent;
    return {.bytes = recent.bytes(),
            .used_tokens = sequence.length - first_recent_of(sequence),
            .tokens = recent.rows()};
  });
  std::map<SeqId, SeqId> outer;  // from the inner store's sequence to this store's
  for_each_sequence([&](SeqId id, const Sequence& sequence) {
    outer[static_cast<const AgedSequence&>(sequence).old] = id;
  });
  for (MapEntry& piece : old_->map()) {
    piece.owner = outer.at(piece.owner);
    pieces.push_back(piece);
  }
  return pieces;
}

CheckedStore::StepOr AgedStore::start(std::vector<StepSlot> step_slots) {
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  const uint64_t own = growth_bytes(step_slots);
  if (auto shortage = claim(own, what)) return *shortage;
  std::vector<RowBuffer> grown(step_slots.size()), fresh(step_slots.size());
  AgingMove passage;
  try {
    for (size_t i = 0; i < step_slots.size(); ++i) {
      if (grows(step_slots[i])) grown[i] = RowBuffer(shape(), buffer_rows(step_slots[i]));
      if (!fits(step_slots[i])) fresh[i] = RowBuffer(shape(), step_slots[i].fresh);
    }
    passage = passage_of(step_slots);
  } catch (const std::bad_alloc&) {
    return refused(own);
  }
  if (!passage.old.empty()) {
    auto step = old_->begin({passage.old});
    if (!step.ok()) return joined(step.error(), own, what);
    passage.step = std::move(step).value();
  }
  uint64_t fresh_bytes = 0;
  for (size_t i = 0; i < step_slots.size(); ++i) {
    if (grown[i].rows() > 0) grow(mine(*step_slots[i].sequence), std::move(grown[i]));
    fresh_bytes += fresh[i].bytes();
  }
  auto step = std::make_unique<AgedStep>(*this, std::move(step_slots), std::move(fresh),
                                         std::move(passage));
  own_bytes_ += fresh_bytes;  // until the step ends
  return std::unique_ptr<CheckedStep>(std::move(step));
}

}  // namespace kvick::kv
