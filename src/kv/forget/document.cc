#include "kv/forget/document.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "kv/forget/forget_store.h"
#include "kv/select/predictor.h"

namespace kvick::kv {

Beginning follow(std::span<const Token> document, const Beginning& before, uint32_t length,
                 std::span<const Token> tokens, std::span<const uint32_t> kept) {
  using Is = Beginning::Is;
  if (before.other() || length >= document.size() || kept.empty()) return before;
  const bool told = !tokens.empty();
  // Some steps gave their tokens and some did not (Slot::tokens), so the text cannot be compared.
  if (before.is == (told ? Is::kUntold : Is::kDocument))
    return {.is = Is::kOther, .differs = length};
  if (!told) return {.is = Is::kUntold};
  const size_t count = std::min(kept.size(), document.size() - length);
  for (size_t i = 0; i < count; ++i)
    if (tokens[kept[i]] != document[length + i])
      return {.is = Is::kOther, .differs = static_cast<uint32_t>(length + i)};
  return {.is = Is::kDocument};
}

Beginning ForgetStore::beginning_of(const StepSlot& step_slot,
                                    std::span<const uint32_t> kept) const {
  const ForgetSequence& sequence = mine(*step_slot.sequence);
  return follow(setup().select.predictor->document, sequence.beginning, sequence.length,
                step_slot.tokens, kept);
}

bool ForgetStore::may_end_document(const StepSlot& step_slot) const {
  const ForgetSequence& sequence = mine(*step_slot.sequence);
  return rule_.noted == Noted::kDocument && !sequence.beginning.other() &&
         sequence.length < rule_.document && sequence.length + step_slot.fresh >= rule_.document;
}

ForgetStore::Room ForgetStore::room_for(const StepSlot& step_slot) const {
  const ForgetSequence& sequence = mine(*step_slot.sequence);
  const uint32_t from = sequence.length, to = from + step_slot.fresh;
  const auto blocks = [&](uint32_t rows) { return RowPool::blocks_of(together(), rows); };
  if (rule_.noted != Noted::kDocument)  // not all fresh rows need be kept
    return {.blocks = blocks(rule_.most_held(from, to))};
  if (sequence.beginning.other()) return {.blocks = blocks(to)};
  if (from >= rule_.document) return {.blocks = blocks(rule_.held(to))};
  std::vector<uint32_t> kept(step_slot.fresh);
  std::iota(kept.begin(), kept.end(), 0U);
  const bool other = beginning_of(step_slot, kept).other();
  // A document gets room for all of its rows at once: while a pool grows it takes memory twice.
  if (to < rule_.document) return {.blocks = blocks(other ? to : rule_.document - 1)};
  const uint32_t after = blocks(rule_.held(to));
  // Which of a tree's tokens stay is not known yet, so all may have to.
  if (!step_slot.whole) return {.blocks = blocks(to), .after = after};
  if (other) return {.blocks = blocks(to)};
  if (sequence.rows.blocks() > after) return {.blocks = 0, .after = after};
  return {.blocks = after};
}

std::string ForgetStore::failure_of(const Sequence& sequence) const {
  const Beginning& beginning = static_cast<const ForgetSequence&>(sequence).beginning;
  if (rule_.keeps_others || !beginning.other()) return {};
  return fmt::format(
      "the text does not begin with the document of kvzip's file (token {} of {} differs): begin "
      "with that document, or add other=keep to keep all rows of other texts",
      beginning.differs + 1, rule_.document);
}

// Moves the rows that are left of a document, and those behind it, to the smaller pool.
void ForgetStep::move_after(uint32_t slot) {
  RowPool& rows = sequence(slot).rows;
  if (after_[slot].blocks() == 0) return;
  after_[slot].take(rows);
  store_.own_bytes_ += after_[slot].bytes() - rows.bytes();
  store_.copied_bytes_ +=
      rows.held_of_all() * (store_.shape().row_bytes(false) + store_.shape().row_bytes(true));
  rows = std::exchange(after_[slot], RowPool());
}

}  // namespace kvick::kv
