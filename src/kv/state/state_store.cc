#include "kv/state/state_store.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "kv/rows/row_block.h"

namespace kvick::kv {
namespace {

// Grows by doubling: reserve() alone takes the exact size, so every step would copy all tokens.
void reserve_tokens(std::vector<Token>& tokens, size_t more) {
  const size_t wanted = tokens.size() + more;
  if (tokens.capacity() < wanted) tokens.reserve(std::max(wanted, 2 * tokens.capacity()));
}

}  // namespace

class StateStep final : public CheckedStep, public StateKeeper, public RowSink {
 public:
  // after: per batch slot the states after its rows, or only the last one (Slot::whole).
  StateStep(StateStore& store, std::vector<StepSlot> step_slots,
            std::vector<std::vector<SharedState>> after)
      : CheckedStep(store, std::move(step_slots)), store_(store), after_(std::move(after)) {}
  StateStep(const StateStep&) = delete;
  StateStep& operator=(const StateStep&) = delete;

  StepFacets facets() override { return {.states = this, .sink = this}; }

  std::span<const std::byte> state(uint32_t layer, uint32_t slot) const override {
    check_layer(layer);
    KVICK_CHECK(!StateStore::mine(*step_slots()[slot].sequence).lacks_state,
                "a sequence goes on without the state that its rows belong to");
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
  // The rows belong to other layers. This store only needs their number.
  void put(std::span<const std::byte> rows) override {
    check_live();
    KVICK_CHECK(rows.empty(), "rows of layers that keep a state");
    for (uint32_t layer = 0; layer < store_.shape().layers; ++layer) mark_written(layer);
    put_ = true;
  }
  void view_rows(const Query& query, base::Arena&, kernels::View&) override {
    KVICK_CHECK(false, "a view of layer {}, which keeps a state", query.layer);
  }
  void keep_all(const Kept& kept) override {
    CheckedStep::keep_all(kept);
    after_.clear();  // frees the states now: a step may outlive its commit
  }
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override {
    if (kept.empty()) return;
    const StepSlot& step_slot = step_slots()[slot];
    const std::optional<size_t> at = index(slot, kept.back());
    KVICK_CHECK(at, "{} of {} rows are kept of a step whose rows were all to be", kept.size(),
                step_slot.fresh);
    StateSequence& sequence = StateStore::mine(*step_slot.sequence);
    sequence.state = std::move(after_[slot][*at]);
    sequence.lacks_state = put_;
    store_.resumed_ += std::exchange(sequence.resumed, false) ? 1 : 0;
    sequence.known = sequence.known && !step_slot.tokens.empty();
    for (const uint32_t row : kept)
      if (sequence.known) sequence.tokens.push_back(step_slot.tokens[row]);  // reserved by begin
    sequence.length += static_cast<uint32_t>(kept.size());
  }
  StateStore& store_;
  std::vector<std::vector<SharedState>> after_;
  bool put_ = false;
};

std::optional<Shortage> StateStore::claim(uint64_t bytes, std::string_view what) {
  const uint64_t own = held_bytes() - cached_bytes();
  if (auto shortage = over_cap(own, own + bytes, what)) return shortage;
  while (held_bytes() + bytes > setup().limits.max_bytes && evict(1) > 0) continue;
  return std::nullopt;
}

SharedState StateStore::make_state() const {
  RowBlock block = make_row_block(sequence_bytes());
  *held_bytes_ += sequence_bytes();
  return SharedState(block.release(),
                     [held = held_bytes_, bytes = sequence_bytes()](std::byte* state) {
                       *held -= bytes;
                       ReleaseRowBlock()(state);
                     });
}

// Resumes from the checkpoint with the longest prefix.
std::unique_ptr<Sequence> StateStore::make_sequence(std::span<const Token> prompt,
                                                    const Owner& owner) {
  auto sequence = std::make_unique<StateSequence>();
  sequence->owner = owner;
  if (!setup().sharing.prefixes) return sequence;
  CheckpointTree::Found found = checkpoints_.find(prompt, owner.salt);
  sequence->seen = found.seen;
  if (found.state == nullptr) return sequence;
  sequence->tokens.assign(prompt.begin(), prompt.begin() + found.tokens);
  sequence->length = found.tokens;
  sequence->state = std::move(found.state);
  sequence->resumed = true;
  return sequence;
}

CheckedStore::SequenceOr StateStore::copy_sequence(SeqId, const Sequence& from) {
  auto copy = std::make_unique<StateSequence>(static_cast<const StateSequence&>(from));
  if (copy->length == 0) copy->state = nullptr;
  copy->resumed = false;
  return std::unique_ptr<Sequence>(std::move(copy));
}

void StateStore::free_sequence(std::unique_ptr<Sequence> closed) { keep(mine(*closed)); }

void StateStore::keep(SeqId seq, uint32_t at) {
  check_idle("keep");
  const StateSequence& sequence = mine(find(seq));
  KVICK_CHECK(at == sequence.length, "a checkpoint at token {} of {}", at, sequence.length);
  keep(sequence);
}

void StateStore::read_state(SeqId seq, std::span<std::byte> out) const {
  check_idle("read_state");
  const StateSequence& sequence = mine(find(seq));
  KVICK_CHECK(sequence.length > 0 && !sequence.lacks_state, "a sequence without a state");
  KVICK_CHECK_EQ(out.size(), sequence_bytes());
  std::memcpy(out.data(), sequence.state.get(), out.size());
}

// The step that put the rows left a state that no other sequence or checkpoint shares.
void StateStore::put_state(SeqId seq, std::span<const std::byte> state) {
  check_idle("put_state");
  StateSequence& sequence = mine(find(seq));
  KVICK_CHECK(sequence.lacks_state, "a state for a sequence that has one");
  KVICK_CHECK_EQ(state.size(), sequence_bytes());
  std::memcpy(sequence.state.get(), state.data(), state.size());
  sequence.lacks_state = false;
}

void StateStore::keep(const StateSequence& sequence) {
  if (!setup().sharing.prefixes || !sequence.known || sequence.lost || sequence.lacks_state ||
      sequence.length == 0)
    return;
  try {
    checkpoints_.keep(sequence.tokens, sequence.owner.salt, sequence.state);
  } catch (const std::bad_alloc&) {  // then no prompt can resume here
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
  std::vector<std::vector<SharedState>> after(step_slots.size());
  std::vector<SharedState> first(step_slots.size());
  try {
    for (size_t slot = 0; slot < step_slots.size(); ++slot) {
      StateSequence& sequence = mine(*step_slots[slot].sequence);
      if (sequence.known) reserve_tokens(sequence.tokens, step_slots[slot].fresh);
      for (uint32_t i = 0; i < (step_slots[slot].whole ? 1 : step_slots[slot].fresh); ++i)
        after[slot].push_back(make_state());
      if (sequence.state != nullptr) continue;
      first[slot] = make_state();
      std::memset(first[slot].get(), 0, sequence_bytes());
    }
  } catch (const std::bad_alloc&) {
    return Shortage{.needed_bytes = bytes,
                    .what = fmt::format("the system refuses {} more bytes of cache", bytes)};
  }
  for (size_t slot = 0; slot < step_slots.size(); ++slot)
    if (first[slot] != nullptr) mine(*step_slots[slot].sequence).state = std::move(first[slot]);
  return std::unique_ptr<CheckedStep>(
      std::make_unique<StateStep>(*this, std::move(step_slots), std::move(after)));
}

uint64_t StateStore::evict(uint64_t bytes) {
  uint64_t given = 0;
  while (given < bytes && checkpoints_.evict()) given += sequence_bytes();
  evicted_ += given;
  return given;
}

// Returns the states of sequences, each once.
std::vector<StateStore::Held> StateStore::held_states() const {
  std::vector<Held> held;
  for_each_sequence([&](SeqId id, const Sequence& one) {
    const std::byte* const state = static_cast<const StateSequence&>(one).state.get();
    if (state != nullptr) held.push_back({state, 1, one.length, id});
  });
  std::ranges::stable_sort(held, {}, &Held::state);
  size_t end = 0;
  for (const Held& one : held) {
    if (end > 0 && held[end - 1].state == one.state)
      ++held[end - 1].users;
    else
      held[end++] = one;
  }
  held.resize(end);
  return held;
}

Usage StateStore::count() const {
  Usage usage;
  for (const Held& one : held_states()) {
    if (one.tokens > 0) usage.used_bytes += sequence_bytes();
    if (one.users > 1) usage.shared_bytes += sequence_bytes();
  }
  usage.allocated_bytes = held_bytes();
  usage.cached_bytes = usage.checkpoint_bytes = cached_bytes();
  usage.evicted_bytes = evicted_;
  usage.checkpoints = checkpoints_.size();
  usage.resumed = resumed_;
  usage.metadata_bytes = checkpoints_.bytes();
  return usage;
}

std::vector<MapEntry> StateStore::map() const {
  std::vector<MapEntry> pieces;
  for (const Held& one : held_states())
    pieces.push_back({.bytes = sequence_bytes(),
                      .used_tokens = one.tokens,
                      .tokens = one.tokens,
                      .users = one.users,
                      .owner = one.first});
  checkpoints_.for_each([&](const SharedState& state, uint32_t tokens) {
    if (state.use_count() > 1) return;
    pieces.push_back({.bytes = sequence_bytes(), .used_tokens = tokens, .tokens = tokens});
  });
  return pieces;
}

}  // namespace kvick::kv
