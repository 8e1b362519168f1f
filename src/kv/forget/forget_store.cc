#include "kv/forget/forget_store.h"

#include <algorithm>
#include <new>

#include "kv/forget/forget_policy.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

// The remaining rows lie in this store's own memory, so a layout other than the default would have
// no effect: it is refused.
base::Status<> check_layout(const Setup& setup, const Layout& layout) {
  const Strategy& standard = strategies().front();
  if (layout.strategy.name == standard.name && layout.spec.options.empty()) return base::Done{};
  return base::fail(
      "{} keeps the remaining rows in memory of its own, so that {} would keep nothing: leave --kv "
      "out, or give {}",
      setup.select.spec.name, spec_text(layout.spec), standard.name);
}

uint64_t bytes_of(const ForgetSequence& sequence) {
  return sequence.rows.bytes() + sequence.queries.bytes();
}

}  // namespace

Traits endless_traits(const ForgetRule& rule) {
  Traits traits;
  traits.endless = rule.endless();
  if (traits.endless) traits.most_kept = rule.held(UINT32_MAX);
  return traits;
}

uint64_t ForgetStore::pool_bytes(uint32_t blocks) const {
  return RowPool::bytes_of(shape(), together(), blocks, rule_.window);
}

uint64_t ForgetStore::step_bytes(const StepSlot& step_slot) const {
  const ForgetSequence& sequence = mine(*step_slot.sequence);
  const uint64_t rows = step_slot.fresh * shape().token_bytes();
  if (!rule_.notes(sequence.length + step_slot.fresh)) return rows;
  return rows + rule_.score_bytes(shape(), sequence.rows.held_of_all(), step_slot.fresh);
}

void ForgetStore::move(const ForgetSequence& from, uint32_t blocks, ForgetSequence& to) {
  RowPool pool(shape(), together(), blocks, rule_.window);
  pool.take(from.rows);
  own_bytes_ += pool.bytes() - to.rows.bytes();
  copied_bytes_ += from.rows.held_of_all() * (shape().row_bytes(false) + shape().row_bytes(true));
  to.rows = std::move(pool);
}

CheckedStore::SequenceOr ForgetStore::copy_sequence(SeqId id, const Sequence& from) {
  const auto& source = static_cast<const ForgetSequence&>(from);
  const uint32_t rows = source.beginning.other() ? source.length : rule_.held(source.length);
  const uint32_t blocks = RowPool::blocks_of(together(), rows);
  const uint64_t bytes = pool_bytes(blocks) + source.queries.bytes();
  const std::string what = fmt::format("fork of sequence {}", static_cast<uint32_t>(id));
  if (auto shortage = over_cap(own_bytes_, own_bytes_ + bytes, what)) return *shortage;
  auto copy = std::make_unique<ForgetSequence>();
  copy->length = source.length;
  copy->beginning = source.beginning;
  try {
    copy->queries = source.queries;
    if (blocks > 0) move(source, blocks, *copy);
  } catch (const std::bad_alloc&) {
    return Shortage{bytes, 0, fmt::format("the system refuses {} more bytes of cache", bytes)};
  }
  own_bytes_ += copy->queries.bytes();
  return std::unique_ptr<Sequence>(std::move(copy));
}

void ForgetStore::free_sequence(std::unique_ptr<Sequence> sequence) {
  own_bytes_ -= bytes_of(mine(*sequence));
}

CheckedStore::StepOr ForgetStore::start(std::vector<StepSlot> step_slots) {
  const auto lacks_queries = [&](const StepSlot& step_slot) {
    return rule_.expects() && mine(*step_slot.sequence).queries.bytes() == 0;
  };
  uint64_t bytes = 0, most = 0;  // most: rows of the largest group of heads that may drop some
  std::vector<Room> rooms;
  for (const StepSlot& step_slot : step_slots) {
    const uint32_t blocks = rooms.emplace_back(room_for(step_slot)).blocks;
    bytes += pool_bytes(rooms.back().after);
    if (rule_.noted != Noted::kDocument || may_end_document(step_slot))
      most = std::max(most, mine(*step_slot.sequence).rows.most_of_group() +
                                uint64_t{together()} * step_slot.fresh);
    if (lacks_queries(step_slot)) bytes += QueryMoments::bytes_of(shape(), rule_.expected);
    if (blocks > mine(*step_slot.sequence).rows.blocks()) bytes += pool_bytes(blocks);
    bytes += step_bytes(step_slot);
  }
  std::vector<ForgetChoice> choices(choosers(rule_, setup()));
  bytes += choices.size() * ForgetChoice::bytes_of(rule_, shape(), most);
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  if (auto shortage = over_cap(own_bytes_, own_bytes_ + bytes, what)) return *shortage;
  std::vector<RowBuffer> fresh;
  std::vector<ForgetSequence> grown(step_slots.size());
  std::vector<RowPool> after(step_slots.size());
  const uint64_t own = own_bytes_, copied = copied_bytes_;
  try {
    for (ForgetChoice& choice : choices) choice.reserve(rule_, shape(), most);
    for (size_t i = 0; i < step_slots.size(); ++i) {
      fresh.emplace_back(shape(), step_slots[i].fresh);
      const ForgetSequence& sequence = mine(*step_slots[i].sequence);
      if (lacks_queries(step_slots[i])) grown[i].queries = QueryMoments(shape(), rule_.expected);
      if (rooms[i].blocks > sequence.rows.blocks()) move(sequence, rooms[i].blocks, grown[i]);
      RowPool& rows =
          grown[i].rows.blocks() > 0 ? grown[i].rows : mine(*step_slots[i].sequence).rows;
      rows.prepare(sequence.length + step_slots[i].fresh);
      if (rooms[i].after == 0) continue;
      after[i] = RowPool(shape(), together(), rooms[i].after, rule_.window);
      after[i].prepare(sequence.length + step_slots[i].fresh);
    }
  } catch (const std::bad_alloc&) {
    own_bytes_ = own;
    copied_bytes_ = copied;
    return Shortage{bytes, 0, fmt::format("the system refuses {} more bytes of cache", bytes)};
  }
  for (size_t i = 0; i < step_slots.size(); ++i) {
    ForgetSequence& sequence = mine(*step_slots[i].sequence);
    if (grown[i].queries.bytes() > 0) {
      own_bytes_ += grown[i].queries.bytes();
      sequence.queries = std::move(grown[i].queries);
    }
    if (grown[i].rows.blocks() == 0) continue;
    own_bytes_ -= sequence.rows.bytes();
    sequence.rows = std::move(grown[i].rows);
  }
  return std::unique_ptr<CheckedStep>(std::make_unique<ForgetStep>(
      *this, std::move(step_slots), std::move(fresh), std::move(after), std::move(choices)));
}

Usage ForgetStore::count() const {
  Usage usage;
  for_each_sequence([&](SeqId, const Sequence& sequence) {
    usage.used_bytes += static_cast<const ForgetSequence&>(sequence).rows.held_of_all() *
                        (shape().row_bytes(false) + shape().row_bytes(true));
  });
  usage.allocated_bytes = own_bytes_;
  usage.copied_bytes = copied_bytes_;
  usage.read_bytes = read_bytes_.load(std::memory_order_relaxed);
  return usage;
}

std::vector<MapEntry> ForgetStore::map() const {
  return piece_each([&](const Sequence& sequence) -> MapEntry {
    const RowPool& rows = static_cast<const ForgetSequence&>(sequence).rows;
    const uint64_t heads = uint64_t{shape().layers} * shape().kv_heads;
    return {.bytes = bytes_of(static_cast<const ForgetSequence&>(sequence)),
            .used_tokens = static_cast<uint32_t>(rows.held_of_all() / heads),
            .tokens = rows.blocks() * RowPool::kBlockRows / together()};
  });
}

base::Result<std::unique_ptr<Store>> make_forget_store(const Setup& setup, const Layout& layout,
                                                       const ForgetRule& rule) {
  KVICK_TRY_VOID(check_layout(setup, layout));
  return std::unique_ptr<Store>(std::make_unique<ForgetStore>(setup, rule));
}

namespace {

// Returns what a sequence takes more than `bytes` in the step that drops its document's rows: it
// has its rows of before and of after.
uint64_t dropping_bytes(const Setup& setup, const ForgetRule& rule, const Load& load,
                        uint64_t bytes) {
  if (rule.noted != Noted::kDocument || load.tokens < rule.document) return 0;
  const Shape& shape = setup.shape;
  const uint32_t together = rule.together(shape), fresh = std::min(load.step, rule.document);
  const uint32_t end = rule.document + (fresh - 1);  // tokens after that step, at most
  const auto pool = [&](uint32_t rows) {
    return RowPool::bytes_of(shape, together, RowPool::blocks_of(together, rows), rule.window);
  };
  const uint64_t then =
      pool(rule.document - 1) + pool(rule.held(end)) + fresh * shape.token_bytes() +
      choosers(rule, setup) * ForgetChoice::bytes_of(rule, shape, uint64_t{together} * end);
  return then - std::min(then, bytes);
}

// Returns the rows that each head keeps of a sequence of `tokens` tokens, at most.
uint32_t rows_of(const ForgetRule& rule, uint32_t tokens) {
  return rule.keeps_others ? tokens : rule.held(tokens);
}

// Returns the rows that a head's part of the pool has room for then.
uint32_t room_of(const ForgetRule& rule, uint32_t tokens) {
  if (rule.noted != Noted::kDocument) return rule.most_held(0, tokens);
  const bool reading = tokens < rule.document && rule.document != UINT32_MAX;
  return reading ? rule.document - 1 : rows_of(rule, tokens);
}

}  // namespace

base::Result<Cost> forget_cost(const Setup& setup, const Layout& layout, const ForgetRule& rule,
                               const Load& load) {
  KVICK_TRY_VOID(check_layout(setup, layout));
  const uint64_t token = setup.shape.token_bytes();
  const bool document = rule.noted == Noted::kDocument;
  const uint32_t together = rule.together(setup.shape);
  const uint32_t most = room_of(rule, load.tokens);
  const uint64_t growths = (uint64_t{most} + RowPool::kBlockRows - 1) / RowPool::kBlockRows;
  // Copied: the existing rows at each growth, and each row at its commit.
  const uint64_t grown = growths > 0 ? growths * (growths - 1) / 2 * RowPool::kBlockRows : 0;
  const uint64_t read = load.tokens > 0 ? rows_of(rule, load.tokens - 1) + 1 : 0;
  uint64_t bytes =
      RowPool::bytes_of(setup.shape, together, RowPool::blocks_of(together, most), rule.window);
  if (rule.expects() && load.tokens > 0)
    bytes += QueryMoments::bytes_of(setup.shape, rule.expected);
  // Of one step for all sequences. They read their documents one after the other.
  uint64_t scratch = dropping_bytes(setup, rule, load, bytes);
  if (load.step > 1) {
    const uint32_t fresh = std::min(load.step, load.tokens);
    const uint64_t heads = uint64_t{setup.shape.layers} * setup.shape.kv_heads;
    const uint64_t held = document ? 0 : rule.most_held(0, load.tokens - fresh);
    bytes += fresh * token + rule.score_bytes(setup.shape, heads * held, fresh);
    // A sequence that grows has its former pool too, until its rows are copied.
    const uint32_t former = most == 0 ? 0 : (most - 1) / RowPool::kBlockRows * RowPool::kBlockRows;
    bytes +=
        RowPool::bytes_of(setup.shape, together, RowPool::blocks_of(together, former), rule.window);
    if (!document)
      scratch = choosers(rule, setup) *
                ForgetChoice::bytes_of(rule, setup.shape, together * (held + fresh));
  }
  return Cost{
      .fast_bytes = saturating_add(saturating_mul(load.sequences, bytes), scratch),
      .slow_bytes = 0,
      .read_bytes_per_token = read * token,
      .copied_bytes = saturating_mul(load.sequences, saturating_mul(grown + load.tokens, token))};
}

void forgetting_traits(Traits& traits) { traits = {.exact = false, .forgets = true}; }

}  // namespace kvick::kv
