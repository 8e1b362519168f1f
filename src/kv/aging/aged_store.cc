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

// While a step is alive and its sequences have grown, before what they grew from is given back.
uint64_t AgedStore::growth_bytes(std::span<const Place> places) const {
  uint64_t rows = 0;
  for (const Place& place : places) {
    if (grows(place)) rows += buffer_rows(place);
    if (!fits(place)) rows += place.fresh;
  }
  return rows * shape().token_bytes();
}

Passage AgedStore::passage_of(std::span<const Place> places) const {
  Passage passage;
  size_t rows = 0;
  for (uint32_t slot = 0; slot < places.size(); ++slot) {
    const uint32_t length = places[slot].sequence->length;
    const uint32_t old = aging_.old_rows(length + places[slot].fresh) - aging_.old_rows(length);
    if (old == 0) continue;
    passage.slots.push_back(slot);
    passage.old.push_back({.seq = mine(*places[slot].sequence).old, .fresh = old, .tokens = {}});
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

// The recent rows of each sequence, then the pieces of the old ones.
std::vector<Piece> AgedStore::map() const {
  std::vector<Piece> pieces = piece_each([&](const Sequence& sequence) -> Piece {
    const RowBuffer& recent = static_cast<const AgedSequence&>(sequence).recent;
    return {.bytes = recent.bytes(),
            .used_tokens = sequence.length - first_recent_of(sequence),
            .tokens = recent.rows()};
  });
  std::map<SeqId, SeqId> outer;  // of a sequence of the inner store
  for_each_sequence([&](SeqId id, const Sequence& sequence) {
    outer[static_cast<const AgedSequence&>(sequence).old] = id;
  });
  for (Piece& piece : old_->map()) {
    piece.owner = outer.at(piece.owner);
    pieces.push_back(piece);
  }
  return pieces;
}

CheckedStore::StepOr AgedStore::start(std::vector<Place> places) {
  const std::string what = fmt::format("a step of {} sequences", places.size());
  const uint64_t own = growth_bytes(places);
  if (auto shortage = claim(own, what)) return *shortage;
  std::vector<RowBuffer> grown(places.size()), fresh(places.size());
  Passage passage;
  try {
    for (size_t i = 0; i < places.size(); ++i) {
      if (grows(places[i])) grown[i] = RowBuffer(shape(), buffer_rows(places[i]));
      if (!fits(places[i])) fresh[i] = RowBuffer(shape(), places[i].fresh);
    }
    passage = passage_of(places);
  } catch (const std::bad_alloc&) {
    return refused(own);
  }
  if (!passage.old.empty()) {
    auto step = old_->begin({passage.old});
    if (!step.ok()) return joined(step.error(), own, what);
    passage.step = std::move(step).value();
  }
  uint64_t fresh_bytes = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (grown[i].rows() > 0) grow(mine(*places[i].sequence), std::move(grown[i]));
    fresh_bytes += fresh[i].bytes();
  }
  auto step =
      std::make_unique<AgedStep>(*this, std::move(places), std::move(fresh), std::move(passage));
  own_bytes_ += fresh_bytes;  // until the step ends
  return std::unique_ptr<CheckedStep>(std::move(step));
}

}  // namespace kvick::kv
