#include "kv/state/state_store.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace kvick::kv {

class StateStep final : public CheckedStep, public StateKeeper {
 public:
  // after: per slot the states after its rows, or after the last alone (Slot::whole).
  StateStep(StateStore& store, std::vector<StepSlot> step_slots,
            std::vector<std::vector<RowBlock>> after)
      : CheckedStep(store, std::move(step_slots)), store_(store), after_(std::move(after)) {}
  ~StateStep() override { release(); }
  StateStep(const StateStep&) = delete;
  StateStep& operator=(const StateStep&) = delete;

  StepFacets facets() override { return {.states = this}; }

  std::span<const std::byte> state(uint32_t layer, uint32_t slot) const override {
    check_layer(layer);
    return {
        StateStore::mine(*step_slots()[slot].sequence).state.get() + layer * store_.state_bytes_,
        store_.state_bytes_};
  }
  std::span<std::byte> state_after(uint32_t layer, uint32_t slot, uint32_t row) override {
    check_layer(layer);
    KVICK_CHECK(row < step_slots()[slot].fresh, "row {} of {}", row, step_slots()[slot].fresh);
    const std::optional<size_t> at = index(slot, row);
    if (!at) return {};
    return {after_[slot][*at].get() + layer * store_.state_bytes_, store_.state_bytes_};
  }

 private:
  std::optional<size_t> index(uint32_t slot, uint32_t row) const {
    if (after_[slot].size() == step_slots()[slot].fresh) return row;
    return row + 1 == step_slots()[slot].fresh ? std::optional<size_t>(0) : std::nullopt;
  }
  void write_rows(uint32_t layer, const float* k, const float* v) override {
    KVICK_CHECK(k == nullptr && v == nullptr, "rows of layer {}, which keeps a state", layer);
  }
  void view_rows(const Query& query, base::Arena&, kernels::View&) override {
    KVICK_CHECK(false, "a view of layer {}, which keeps a state", query.layer);
  }
  void keep_all(const Kept& kept) override {
    CheckedStep::keep_all(kept);
    release();
  }
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override {
    if (kept.empty()) return;
    const StepSlot& step_slot = step_slots()[slot];
    const std::optional<size_t> at = index(slot, kept.back());
    KVICK_CHECK(at, "{} of {} rows are kept of a step whose rows were all to be", kept.size(),
                step_slot.fresh);
    StateSequence& sequence = StateStore::mine(*step_slot.sequence);
    std::swap(sequence.state, after_[slot][*at]);
    sequence.known = sequence.known && !step_slot.tokens.empty();
    for (const uint32_t row : kept)
      if (sequence.known) sequence.tokens.push_back(step_slot.tokens[row]);  // reserved by begin
    sequence.length += static_cast<uint32_t>(kept.size());
  }
  void release() {
    for (const auto& blocks : after_) store_.own_bytes_ -= blocks.size() * store_.sequence_bytes();
    after_.clear();  // only once: a step may outlive its commit
  }

  StateStore& store_;
  std::vector<std::vector<RowBlock>> after_;
};

std::optional<Shortage> StateStore::claim(uint64_t bytes, std::string_view what) {
  if (auto shortage = over_cap(own_bytes_, own_bytes_ + bytes, what)) return shortage;
  while (held_bytes() + bytes > setup().limits.max_bytes && evict(1) > 0) continue;
  return std::nullopt;
}

RowBlock StateStore::copy_of(const RowBlock& state) const {
  RowBlock copy = make_row_block(sequence_bytes());
  std::memcpy(copy.get(), state.get(), sequence_bytes());
  return copy;
}

// Goes on from the longest checkpoint, of which it takes a copy.
std::unique_ptr<Sequence> StateStore::make_sequence(std::span<const Token> prompt,
                                                    const Owner& owner) {
  auto sequence = std::make_unique<StateSequence>();
  sequence->owner = owner;
  auto best = checkpoints_.end();
  for (auto at = checkpoints_.begin(); at != checkpoints_.end(); ++at) {
    if (at->salt != owner.salt || at->tokens.size() > prompt.size()) continue;
    if (!std::equal(at->tokens.begin(), at->tokens.end(), prompt.begin())) continue;
    if (best == checkpoints_.end() || at->tokens.size() > best->tokens.size()) best = at;
  }
  if (best == checkpoints_.end()) return sequence;
  try {
    sequence->tokens = best->tokens;
    sequence->state = copy_of(best->state);
  } catch (const std::bad_alloc&) {
    return std::make_unique<StateSequence>();
  }
  checkpoints_.splice(checkpoints_.begin(), checkpoints_, best);
  // Without room for it the prompt is read from its beginning.
  if (claim(sequence_bytes(), "a checkpoint")) return std::make_unique<StateSequence>();
  own_bytes_ += sequence_bytes();
  copied_bytes_ += sequence_bytes();
  sequence->length = static_cast<uint32_t>(sequence->tokens.size());
  return sequence;
}

CheckedStore::SequenceOr StateStore::copy_sequence(SeqId id, const Sequence& from) {
  const auto& source = static_cast<const StateSequence&>(from);
  auto copy = std::make_unique<StateSequence>();
  copy->owner = source.owner;
  copy->tokens = source.tokens;
  copy->known = source.known;
  copy->length = source.length;
  if (source.length == 0) return std::unique_ptr<Sequence>(std::move(copy));
  if (auto shortage =
          claim(sequence_bytes(), fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
    return *shortage;
  try {
    copy->state = copy_of(source.state);
  } catch (const std::bad_alloc&) {
    return Shortage{.needed_bytes = sequence_bytes(), .what = "the system refuses a state"};
  }
  own_bytes_ += sequence_bytes();
  copied_bytes_ += sequence_bytes();
  return std::unique_ptr<Sequence>(std::move(copy));
}

void StateStore::free_sequence(std::unique_ptr<Sequence> closed) {
  StateSequence& sequence = mine(*closed);
  if (sequence.state == nullptr) return;
  own_bytes_ -= sequence_bytes();
  if (!setup().sharing.prefixes || !sequence.known || sequence.lost || sequence.length == 0) return;
  const auto same =
      std::find_if(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& checkpoint) {
        return checkpoint.salt == sequence.owner.salt && checkpoint.tokens == sequence.tokens;
      });
  if (same != checkpoints_.end()) {
    checkpoints_.splice(checkpoints_.begin(), checkpoints_, same);
    return;
  }
  try {
    checkpoints_.push_front({.salt = sequence.owner.salt,
                             .priority = sequence.owner.priority,
                             .tokens = std::move(sequence.tokens),
                             .state = std::move(sequence.state)});
  } catch (const std::bad_alloc&) {  // nobody goes on from it then
  }
}

CheckedStore::StepOr StateStore::start(std::vector<StepSlot> step_slots) {
  uint64_t blocks = 0;
  for (const StepSlot& step_slot : step_slots) {
    blocks += step_slot.whole ? 1 : step_slot.fresh;
    if (mine(*step_slot.sequence).state == nullptr) ++blocks;
  }
  const uint64_t bytes = blocks * sequence_bytes();
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  if (auto shortage = claim(bytes, what)) return *shortage;
  std::vector<std::vector<RowBlock>> after(step_slots.size());
  std::vector<RowBlock> first(step_slots.size());
  try {
    for (size_t slot = 0; slot < step_slots.size(); ++slot) {
      StateSequence& sequence = mine(*step_slots[slot].sequence);
      if (sequence.known) sequence.tokens.reserve(sequence.tokens.size() + step_slots[slot].fresh);
      for (uint32_t i = 0; i < (step_slots[slot].whole ? 1 : step_slots[slot].fresh); ++i)
        after[slot].push_back(make_row_block(sequence_bytes()));
      if (sequence.state != nullptr) continue;
      first[slot] = make_row_block(sequence_bytes());
      std::memset(first[slot].get(), 0, sequence_bytes());
    }
  } catch (const std::bad_alloc&) {
    return Shortage{.needed_bytes = bytes,
                    .what = fmt::format("the system refuses {} more bytes of cache", bytes)};
  }
  for (size_t slot = 0; slot < step_slots.size(); ++slot)
    if (first[slot] != nullptr) mine(*step_slots[slot].sequence).state = std::move(first[slot]);
  own_bytes_ += bytes;
  return std::unique_ptr<CheckedStep>(
      std::make_unique<StateStep>(*this, std::move(step_slots), std::move(after)));
}

// The one used longest ago first.
uint64_t StateStore::evict(uint64_t bytes) {
  uint64_t given = 0;
  for (; given < bytes && !checkpoints_.empty(); given += sequence_bytes()) checkpoints_.pop_back();
  return given;
}

Usage StateStore::count() const {
  Usage usage;
  for_each_sequence([&](SeqId, const Sequence& sequence) {
    if (sequence.length > 0) usage.used_bytes += sequence_bytes();
  });
  usage.allocated_bytes = held_bytes();
  usage.cached_bytes = cached_bytes();
  usage.copied_bytes = copied_bytes_;
  for (const Checkpoint& checkpoint : checkpoints_)
    usage.metadata_bytes += sizeof(Checkpoint) + checkpoint.tokens.size() * sizeof(Token);
  return usage;
}

std::vector<MapEntry> StateStore::map() const {
  std::vector<MapEntry> pieces = piece_each([&](const Sequence& one) -> MapEntry {
    const auto& sequence = static_cast<const StateSequence&>(one);
    return {.bytes = sequence.state != nullptr ? sequence_bytes() : 0,
            .used_tokens = sequence.length,
            .tokens = sequence.length};
  });
  for (const Checkpoint& checkpoint : checkpoints_) {
    const auto tokens = static_cast<uint32_t>(checkpoint.tokens.size());
    pieces.push_back({.bytes = sequence_bytes(), .used_tokens = tokens, .tokens = tokens});
  }
  return pieces;
}

}  // namespace kvick::kv
