#include "kv/select/select_store.h"

#include <map>

#include "base/check.h"
#include "kv/select/select_step.h"
#include "kv/tier/tiered.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

Setup setup_of_rows(const Setup& setup, const Selector& selector) {
  Setup rows = setup;
  rows.select.spec = {};
  rows.sharing.prefixes = setup.sharing.prefixes && !selector.has_side_rows();
  if (!setup.tier.spec) return rows;
  const Selection& selection = selector.selection();
  rows.tier.spec->options.try_emplace("unit",
                                      std::to_string(unit_tokens_for(setup, selection.unit)));
  rows.tier.asked = [selection, plain = rows](uint32_t committed, uint32_t fresh) {
    if (fresh > kMostSelecting) return kShowsAll;
    ChosenRows chosen = {.rows = committed, .together = selection.unit};
    if (selection.dense_layers == 0) chosen.top_rows = selection.of(committed);
    return chosen_units(plain, chosen);
  };
  return rows;
}

// Returns whether the rows' slower tier, if there is one, is in memory from which they are loaded.
bool loads(const Setup& setup, const Selector& selector) {
  return setup.tier.spec &&
         loads_rows(setup_of_rows(setup, selector), read_tier(*setup.tier.spec).value());
}

// Refuses policies and options that do not work with a slower tier. The tier's spec is valid.
base::Status<> check_place(const Setup& setup, const Selector& selector, bool loads) {
  if (setup.tier.spec && selector.selection().loss > 0)
    return base::fail(
        "{}: loss= is held by checks that read all rows, and with --kv-tier they are in the slower "
        "tier: leave one of the two out",
        setup.select.spec.name);
  if (setup.tier.spec && selector.summarises_again() && !loads)
    return base::fail(
        "{} reads rows again while their block fills, and with --kv-tier it loads them from where "
        "they are: take a tier in memory (ram, numa) without access=copy, or a policy that reads "
        "no rows again, such as quest",
        setup.select.spec.name);
  if (!setup.tier.spec || !selector.reads_rows()) return base::Done{};
  return base::fail(
      "{} looks at keys of all rows to choose, and with --kv-tier they are in the slower tier: "
      "take "
      "a policy that keeps what it chooses by, such as quest",
      setup.select.spec.name);
}

}  // namespace

SelectStore::SelectStore(const Setup& setup, std::unique_ptr<CheckedStore> inner,
                         const RowStore* rows, std::unique_ptr<const Selector> selector,
                         bool foresees)
    : CheckedStore(setup, inner->most_tokens()),
      inner_(std::move(inner)),
      rows_(rows),
      selector_(std::move(selector)),
      summary_(selector_->summary()),
      foresees_(foresees) {}

// The inner store's facets, except that rows cannot be moved if commit writes summaries or side
// rows, which would be lost.
StoreFacets SelectStore::facets() {
  StoreFacets facets = CheckedStore::facets();
  const StoreFacets inner = inner_->facets();
  if (inner.rows != nullptr && !keeps_by_commit()) facets.rows = this;
  if (inner.buckets != nullptr) facets.buckets = this;
  return facets;
}

size_t SelectStore::block_bytes() const {
  return summary_.bytes * shape().layers * shape().kv_heads;
}

uint32_t SelectStore::blocks_for(uint32_t rows) const {
  return summary_.rows == 0 ? 0 : rows / summary_.rows + (rows % summary_.rows > 0 ? 1 : 0);
}

std::unique_ptr<Sequence> SelectStore::make_sequence(std::span<const Token> prompt,
                                                     const Owner& owner) {
  auto sequence = std::make_unique<SelectSequence>();
  const Opened opened = inner_->open(prompt, owner);  // last: nothing may throw after it
  sequence->inner = opened.seq;
  sequence->length = opened.cached;
  return sequence;
}

CheckedStore::SequenceOr SelectStore::copy_sequence(SeqId, const Sequence& from) {
  inner_->limit(setup().limits.max_bytes - held_bytes());
  auto copy = std::make_unique<SelectSequence>(static_cast<const SelectSequence&>(from));
  if (summary_.rows > 0)  // without blocks that a dropped step added
    copy->summaries.resize(std::min<size_t>(copy->summaries.size(), blocks_for(copy->length)));
  KVICK_TRY(copy->inner, inner_->fork(copy->inner));
  return std::unique_ptr<Sequence>(std::move(copy));
}

void SelectStore::free_sequence(std::unique_ptr<Sequence> sequence) {
  inner_->close(mine(*sequence).inner);
}

void SelectStore::read_rows(SeqId seq, uint32_t first, uint32_t count,
                            std::span<std::byte> out) const {
  check_idle("read_rows");
  inner_->facets().rows->read_rows(mine(find(seq)).inner, first, count, out);
}

SelectStore::Pending SelectStore::pending(const StepSlot& step_slot) const {
  const uint32_t length = step_slot.sequence->length;
  if (keeps_by_commit()) return {length, length + step_slot.fresh};
  return {mine(*step_slot.sequence).summarised, length};
}

uint32_t SelectStore::needed_blocks(const StepSlot& step_slot) const {
  const auto [begin, end] = pending(step_slot);
  if (summary_.rows == 0 || begin == end) return 0;
  const std::vector<SummaryBlock>& blocks = mine(*step_slot.sequence).summaries;
  const uint32_t then = blocks_for(end), first = begin / summary_.rows;
  const auto have = static_cast<uint32_t>(blocks.size());
  const bool shared = first < have && blocks[first].use_count() > 1;
  return then - std::min(then, have) + (shared ? 1 : 0);
}

SummaryBlock SelectStore::make_block() {
  const size_t bytes = block_bytes();
  RowBlock block = make_row_block(bytes);
  own_bytes_->fetch_add(bytes, std::memory_order_relaxed);
  return {block.release(), [bytes, counted = own_bytes_](std::byte* memory) {
            ReleaseRowBlock()(memory);
            counted->fetch_sub(bytes, std::memory_order_relaxed);
          }};
}

void SelectStore::install(const StepSlot& step_slot, std::span<SummaryBlock>& made) {
  SelectSequence& sequence = mine(*step_slot.sequence);
  uint32_t count = needed_blocks(step_slot);
  const auto next = [&] {
    SummaryBlock block = std::move(made.front());
    made = made.subspan(1);
    return block;
  };
  if (count == 0) return;
  const uint32_t first = pending(step_slot).begin / summary_.rows;
  if (first < sequence.summaries.size() && sequence.summaries[first].use_count() > 1) {
    SummaryBlock& shared = sequence.summaries[first];
    SummaryBlock own = next();
    std::copy_n(shared.get(), block_bytes(), own.get());
    copied_bytes_ += block_bytes();
    shared = std::move(own);
    --count;
  }
  for (; count > 0; --count) sequence.summaries.push_back(next());
}

std::optional<Shortage> SelectStore::claim(uint64_t own, const std::string& what) {
  if (own > 0) {
    const uint64_t now = held_bytes() + inner_bytes();
    if (auto shortage = over_cap(now, now + own, what)) return shortage;
  }
  inner_->limit(setup().limits.max_bytes - held_bytes() - own);
  return std::nullopt;
}

CheckedStore::StepOr SelectStore::start(std::vector<StepSlot> step_slots) {
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  size_t blocks = 0;
  std::vector<Slot> slots;
  for (const StepSlot& step_slot : step_slots) {
    const SelectSequence& sequence = mine(*step_slot.sequence);
    blocks += needed_blocks(step_slot);
    // Rows of a step that chose rows are not shared: a prompt's step would have read all rows and
    // computed others.
    const auto tokens = chooses(step_slot) ? std::span<const Token>() : step_slot.tokens;
    slots.push_back({.seq = sequence.inner,
                     .fresh = step_slot.fresh,
                     .tokens = tokens,
                     .reads_all = !chooses(step_slot)});
  }
  const uint64_t own = blocks * block_bytes();
  if (auto shortage = claim(own, what)) return *shortage;
  std::vector<SummaryBlock> made;
  try {
    while (made.size() < blocks) made.push_back(make_block());
  } catch (const std::bad_alloc&) {
    return Shortage{own, 0, fmt::format("the system refuses {} more bytes of cache", own)};
  }
  auto step = inner_->begin({slots});
  if (!step.ok()) {
    const uint64_t now = held_bytes() - own + inner_bytes();
    return shortage_of(now, now + own + step.error().needed_bytes, what).value_or(step.error());
  }
  std::span<SummaryBlock> left = made;
  for (const StepSlot& step_slot : step_slots) install(step_slot, left);
  summarise(step_slots);
  return std::unique_ptr<CheckedStep>(
      std::make_unique<SelectStep>(*this, std::move(step_slots), std::move(step).value()));
}

RowsOfHead SelectStore::rows_of(const SelectSequence& sequence, uint32_t layer,
                                uint32_t head) const {
  const size_t at = size_t{layer} * shape().kv_heads + head;
  return {.layer = layer,
          .head = head,
          .segment = rows_ == nullptr
                         ? kernels::Segment{}
                         : rows_->segment(rows_->sequence(sequence.inner), layer, head),
          .blocks = sequence.summaries,
          .offset = at * summary_.bytes};
}

void SelectStore::summarise(std::span<const StepSlot> step_slots) {
  if (summary_.rows == 0 || keeps_by_commit()) return;
  std::vector<std::vector<kernels::Run>> runs(step_slots.size());
  std::vector<size_t> behind;
  for (size_t i = 0; i < step_slots.size(); ++i) {
    const SelectSequence& sequence = mine(*step_slots[i].sequence);
    if (sequence.summarised == sequence.length) continue;
    rows_->add_runs(rows_->sequence(sequence.inner),
                    selector_->summary_begin(sequence.summarised, sequence.length), sequence.length,
                    runs[i]);
    behind.push_back(i);
  }
  const size_t heads = size_t{shape().layers} * shape().kv_heads;
  const auto work = [&](size_t begin, size_t end, unsigned) {
    for (size_t item = begin; item < end; ++item) {
      const size_t i = behind[item / heads], at = item % heads;
      const SelectSequence& sequence = mine(*step_slots[i].sequence);
      RowsOfHead rows = rows_of(sequence, static_cast<uint32_t>(at / shape().kv_heads),
                                static_cast<uint32_t>(at % shape().kv_heads));
      rows.segment.runs = runs[i];
      selector_->summarise(rows, sequence.summarised, sequence.length);
    }
  };
  constexpr size_t kGrain = 16;  // heads in one piece of work
  if (setup().compute.pool == nullptr)
    work(0, behind.size() * heads, 0);
  else
    setup().compute.pool->parallel_for(behind.size() * heads, kGrain, work);
  for (const size_t i : behind)
    mine(*step_slots[i].sequence).summarised = step_slots[i].sequence->length;
}

Usage SelectStore::count() const {
  Usage usage = inner_->usage();
  usage.allocated_bytes += held_bytes();
  usage.copied_bytes += copied_bytes_;
  usage.read_bytes += read_bytes_.load(std::memory_order_relaxed);
  usage.checks += checks_;
  usage.lost_mass += lost_mass_;
  return usage;
}

// The inner store's pieces, then per sequence its summaries, without those of sequences before it.
std::vector<MapEntry> SelectStore::map() const {
  std::map<SeqId, SeqId> outer;  // from the inner store's sequence to this store's
  std::vector<MapEntry> summaries;
  std::vector<const std::byte*> seen;
  for_each_sequence([&](SeqId id, const Sequence& one) {
    const auto& sequence = static_cast<const SelectSequence&>(one);
    outer[sequence.inner] = id;
    MapEntry piece = {.tokens = sequence.length, .users = 1, .owner = id};
    for (const SummaryBlock& block : sequence.summaries) {
      if (std::find(seen.begin(), seen.end(), block.get()) != seen.end()) continue;
      seen.push_back(block.get());
      piece.bytes += block_bytes();
    }
    if (piece.bytes > 0) summaries.push_back(piece);
  });
  std::vector<MapEntry> pieces = inner_->map();
  for (MapEntry& piece : pieces)
    if (piece.users > 0) piece.owner = outer.at(piece.owner);
  pieces.insert(pieces.end(), summaries.begin(), summaries.end());
  return pieces;
}

base::Result<std::unique_ptr<Store>> make_select_store(const Setup& setup, const Layout& layout,
                                                       std::unique_ptr<const Selector> selector) {
  KVICK_TRY_VOID(check_place(setup, *selector, loads(setup, *selector)));
  const Setup of_rows = setup_of_rows(setup, *selector);
  if (setup.tier.spec) {
    KVICK_TRY(const TierOptions options, read_tier(*of_rows.tier.spec));
    KVICK_TRY(std::unique_ptr<Tier> tier,
              make_tier(options, tier_unit_bytes(setup.shape, options)));
    return make_select_store(setup, options, std::move(tier), std::move(selector));
  }
  KVICK_TRY(std::unique_ptr<RowStore> rows, layout.strategy.make_rows(of_rows, layout.spec));
  const RowStore* const in_place = rows.get();
  return std::unique_ptr<Store>(
      std::make_unique<SelectStore>(setup, std::move(rows), in_place, std::move(selector)));
}

base::Result<std::unique_ptr<Store>> make_select_store(const Setup& setup,
                                                       const TierOptions& options,
                                                       std::unique_ptr<Tier> tier,
                                                       std::unique_ptr<const Selector> selector) {
  const bool loads =
      loads_rows(setup_of_rows(setup, *selector), options) && tier->memory() != nullptr;
  KVICK_TRY_VOID(check_place(setup, *selector, loads));
  KVICK_TRY(std::unique_ptr<CheckedStore> rows,
            make_tiered_store(setup_of_rows(setup, *selector), options, std::move(tier)));
  return std::unique_ptr<Store>(
      std::make_unique<SelectStore>(setup, std::move(rows), nullptr, std::move(selector), !loads));
}

namespace {

// Returns the bytes that one token of one sequence reads from the tier, if no row is in memory.
uint64_t slow_bytes(const Setup& rows, const Selector& selector, uint32_t committed) {
  const Shape& shape = rows.shape;
  const Selection& selection = selector.selection();
  const uint64_t dense = std::min(shape.layers, selection.dense_layers);
  const uint64_t all = chosen_bytes(rows, {.top_rows = {}, .rows = committed});
  const uint64_t some = chosen_bytes(
      rows, {.top_rows = selection.of(committed), .rows = committed, .together = selection.unit});
  return shape.kv_heads * (dense * all + (shape.layers - dense) * some);
}

}  // namespace

base::Result<Cost> select_cost(const Setup& setup, const Layout& layout, const Selector& selector,
                               const Load& load) {
  KVICK_TRY_VOID(check_place(setup, selector, loads(setup, selector)));
  const Setup rows = setup_of_rows(setup, selector);
  KVICK_TRY(Cost cost, layout.strategy.cost(rows, layout.spec, load));
  if (load.tokens == 0) return cost;
  const Shape& shape = setup.shape;
  const uint32_t committed = load.tokens - 1;
  const SummaryShape summary = selector.summary();
  const uint64_t about = selector.has_side_rows() || setup.tier.spec ? load.tokens : committed;
  const uint64_t blocks = summary.rows == 0 ? 0 : (about + summary.rows - 1) / summary.rows;
  const uint64_t heads = uint64_t{shape.layers} * shape.kv_heads;
  cost.fast_bytes =
      saturating_add(cost.fast_bytes,
                     saturating_mul(load.sequences, saturating_mul(blocks, heads * summary.bytes)));
  const TopRows top_rows = selector.selection().of(committed);
  if (cost.slow_read_bytes_per_token > 0)
    cost.slow_read_bytes_per_token =
        saturating_mul(load.sequences, slow_bytes(rows, selector, committed));
  if (top_rows.all()) return cost;
  const uint64_t dense = std::min(shape.layers, selector.selection().dense_layers);
  const uint64_t row = shape.row_bytes(false) + shape.row_bytes(true);
  const uint64_t chosen = (uint64_t{top_rows.read_rows(committed)} + 1) * row +
                          selector.choice_bytes(top_rows, committed);
  cost.read_bytes_per_token =
      shape.kv_heads * (dense * load.tokens * row + (shape.layers - dense) * chosen);
  return cost;
}

void selecting_traits(Traits& traits) {
  traits.exact = traits.buckets = traits.holds_old = false;
  traits.per_query = true;
}

void side_row_traits(Traits& traits) {
  selecting_traits(traits);
  traits.shares_prefix = traits.moves_rows = false;
}

}  // namespace kvick::kv
