#include "kv/forget/forget_store.h"

#include <algorithm>
#include <new>

#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

// Rows that are left lie in memory of this store: whoever asks for a layout is told that it would
// have no say.
base::Status<> check_layout(const Setup& setup, const Layout& layout) {
  const Strategy& standard = strategies().front();
  if (layout.strategy.name == standard.name && layout.spec.options.empty()) return base::Done{};
  return base::fail(
      "{} keeps the rows that are left in memory of its own, so that {} would have nothing to "
      "keep: leave the strategy out, or say {}",
      setup.select.spec.name, spec_text(layout.spec), standard.name);
}

}  // namespace

uint32_t ForgetRule::held(uint32_t tokens) const {
  const uint32_t given_up_at = tokens / drop * drop;
  const uint32_t most = std::max(selection.budget(given_up_at), selection.sinks + 1);
  const uint32_t least = std::min(most, selection.sinks + selection.recent + 1);
  const uint32_t left = std::max(most - std::min(most, drop - 1), least);
  return std::min(tokens, left + (tokens - given_up_at));
}

uint32_t ForgetRule::most_held(uint32_t from, uint32_t to) const {
  const uint32_t given_up_at = to / drop * drop;
  return std::max(held(to), given_up_at > from ? held(given_up_at - 1) : 0);
}

bool ForgetRule::notes(uint32_t tokens) const {
  const uint32_t until = (tokens + drop - 1) / drop * drop - tokens;
  return noted != Noted::kNothing && until < history;
}

uint32_t ForgetRule::recent(uint32_t tokens) const {
  const uint32_t held = this->held(tokens), others = held - std::min(held, selection.sinks);
  if (noted == Noted::kNothing) return others;
  return std::min(others, half_recent ? (held + 1) / 2 : selection.recent);
}

void ForgetStore::move(const ForgetSequence& from, uint32_t rows, ForgetSequence& to) {
  const size_t heads = size_t{shape().layers} * shape().kv_heads;
  RowBuffer buffer(shape(), rows);
  std::vector<RowNote> notes(heads * rows);
  for (uint32_t row = 0; row < from.held; ++row) buffer.take(from.rows, row, row);
  for (size_t at = 0; at < heads; ++at)
    std::copy_n(from.notes.data() + at * from.rows.rows(), from.held, notes.data() + at * rows);
  own_bytes_ += (uint64_t{rows} - to.rows.rows()) * row_bytes(shape());
  copied_bytes_ += from.held * shape().token_bytes();
  to.held = from.held;
  to.rows = std::move(buffer);
  to.notes = std::move(notes);
}

CheckedStore::SequenceOr ForgetStore::copy_sequence(SeqId id, const Sequence& from) {
  const auto& source = static_cast<const ForgetSequence&>(from);
  const uint32_t rows = room_for(source.held);
  const uint64_t bytes = rows * row_bytes(shape());
  const std::string what = fmt::format("fork of sequence {}", static_cast<uint32_t>(id));
  if (auto shortage = over_cap(own_bytes_, own_bytes_ + bytes, what)) return *shortage;
  auto copy = std::make_unique<ForgetSequence>();
  copy->length = source.length;
  try {
    if (rows > 0) move(source, rows, *copy);
  } catch (const std::bad_alloc&) {
    return Shortage{bytes, 0, fmt::format("the system refuses {} more bytes of cache", bytes)};
  }
  return std::unique_ptr<Sequence>(std::move(copy));
}

void ForgetStore::free_sequence(std::unique_ptr<Sequence> sequence) {
  own_bytes_ -= mine(*sequence).rows.rows() * row_bytes(shape());
}

CheckedStore::StepOr ForgetStore::start(std::vector<StepSlot> step_slots) {
  const auto room_of = [&](const StepSlot& step_slot) {
    const uint32_t length = step_slot.sequence->length;  // some of the fresh rows may not be kept
    return room_for(rule_.most_held(length, length + step_slot.fresh));
  };
  uint64_t bytes = 0;
  for (const StepSlot& step_slot : step_slots) {
    const uint32_t room = room_of(step_slot);
    if (room > mine(*step_slot.sequence).rows.rows()) bytes += room * row_bytes(shape());
    bytes += step_slot.fresh * shape().token_bytes();
  }
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  if (auto shortage = over_cap(own_bytes_, own_bytes_ + bytes, what)) return *shortage;
  std::vector<RowBuffer> fresh;
  std::vector<ForgetSequence> grown(step_slots.size());
  const uint64_t own = own_bytes_, copied = copied_bytes_;
  try {
    for (size_t i = 0; i < step_slots.size(); ++i) {
      fresh.emplace_back(shape(), step_slots[i].fresh);
      const ForgetSequence& sequence = mine(*step_slots[i].sequence);
      if (room_of(step_slots[i]) > sequence.rows.rows())
        move(sequence, room_of(step_slots[i]), grown[i]);
    }
  } catch (const std::bad_alloc&) {
    own_bytes_ = own;
    copied_bytes_ = copied;
    return Shortage{bytes, 0, fmt::format("the system refuses {} more bytes of cache", bytes)};
  }
  uint64_t fresh_bytes = 0;
  for (size_t i = 0; i < step_slots.size(); ++i) {
    fresh_bytes += fresh[i].bytes();
    if (grown[i].rows.rows() == 0) continue;
    ForgetSequence& sequence = mine(*step_slots[i].sequence);
    own_bytes_ -= sequence.rows.rows() * row_bytes(shape());
    sequence.rows = std::move(grown[i].rows);
    sequence.notes = std::move(grown[i].notes);
  }
  auto step = std::make_unique<ForgetStep>(*this, std::move(step_slots), std::move(fresh));
  own_bytes_ += fresh_bytes;  // until the step ends
  return std::unique_ptr<CheckedStep>(std::move(step));
}

Usage ForgetStore::count() const {
  Usage usage;
  for_each_sequence([&](SeqId, const Sequence& sequence) {
    usage.used_bytes += static_cast<const ForgetSequence&>(sequence).held * shape().token_bytes();
  });
  usage.allocated_bytes = own_bytes_;
  usage.copied_bytes = copied_bytes_;
  usage.read_bytes = read_bytes_.load(std::memory_order_relaxed);
  return usage;
}

std::vector<MapEntry> ForgetStore::map() const {
  return piece_each([&](const Sequence& sequence) -> MapEntry {
    const auto& one = static_cast<const ForgetSequence&>(sequence);
    return {.bytes = one.rows.rows() * row_bytes(shape()),
            .used_tokens = one.held,
            .tokens = one.rows.rows()};
  });
}

base::Result<std::unique_ptr<Store>> make_forget_store(const Setup& setup, const Layout& layout,
                                                       const ForgetRule& rule) {
  KVICK_TRY_VOID(check_layout(setup, layout));
  return std::unique_ptr<Store>(std::make_unique<ForgetStore>(setup, rule));
}

base::Result<Cost> forget_cost(const Setup& setup, const Layout& layout, const ForgetRule& rule,
                               const Load& load) {
  KVICK_TRY_VOID(check_layout(setup, layout));
  const uint64_t token = setup.shape.token_bytes();
  const uint64_t room = ForgetStore::room_for(rule.most_held(0, load.tokens));
  const uint64_t growths = room / ForgetStore::kGrowth;
  // What was there when it grew, and each row when it was committed.
  const uint64_t grown = growths > 0 ? growths * (growths - 1) / 2 * ForgetStore::kGrowth : 0;
  const uint64_t read = load.tokens > 0 ? rule.held(load.tokens - 1) + 1 : 0;
  return Cost{
      .fast_bytes =
          saturating_mul(load.sequences, saturating_mul(room, ForgetStore::row_bytes(setup.shape))),
      .slow_bytes = 0,
      .read_bytes_per_token = read * token,
      .copied_bytes = saturating_mul(load.sequences, saturating_mul(grown + load.tokens, token))};
}

void forgetting_traits(Traits& traits) { traits = {.exact = false, .forgets = true}; }

}  // namespace kvick::kv
