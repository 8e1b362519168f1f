#include "kv/tier/tiered_store.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "kv/tier/tiered_step.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

// Longest time that close() waits for the sequence's transfers. If they take longer, their memory
// is given back later.
constexpr double kCloseSeconds = 0.25;
// Bytes of a sequence that a fork copies together, if there are frames for them. The tier then has
// enough transfers under way, and their latencies overlap.
constexpr uint64_t kCopiedTogether = uint64_t{16} << 20;

uint32_t number(SeqId id) { return static_cast<uint32_t>(id); }

// Direct I/O moves whole sectors, and a disk is no faster with less than a page.
uint32_t tokens_that_suit(const Shape& shape, size_t pair_bytes) {
  const size_t least = UnitLayout::sector_tokens(shape);
  return static_cast<uint32_t>(least *
                               ((kTierPage + least * pair_bytes - 1) / (least * pair_bytes)));
}

}  // namespace

UnitLayout::UnitLayout(const Shape& shape, uint32_t unit_tokens, bool loads_rows)
    : heads(shape.kv_heads),
      regions(shape.layers * shape.kv_heads),
      pair_bytes(shape.row_bytes(false) + shape.row_bytes(true)),
      loads(loads_rows) {
  tokens = unit_tokens != 0 ? unit_tokens : tokens_that_suit(shape, pair_bytes);
  bytes = tokens * pair_bytes;
  extent_bytes = uint64_t{regions} * bytes;
  if (!loads) extent_bytes = (extent_bytes + kTierPage - 1) / kTierPage * kTierPage;
}

uint32_t UnitLayout::sector_tokens(const Shape& shape) {
  constexpr size_t kSector = 512;
  const size_t pair_bytes = shape.row_bytes(false) + shape.row_bytes(true);
  return static_cast<uint32_t>(kSector / std::gcd(kSector, pair_bytes));
}

TieredStore::TieredStore(const Setup& setup, const UnitLayout& layout,
                         std::unique_ptr<Frames> frames)
    : CheckedStore(setup),
      layout_(layout),
      frames_(std::move(frames)),
      // Rows are numbered by 32 bits: across the tier if they are loaded from there.
      extents_(frames_->tier(), layout.extent_bytes,
               layout.loads ? UINT32_MAX * layout.pair_bytes : UINT64_MAX) {
  limit(setup.limits.max_bytes);
}

TieredStore::~TieredStore() = default;

void TieredStore::limit(uint64_t max_bytes) {
  CheckedStore::limit(std::min(max_bytes, frames_->most() * layout_.bytes));
}

std::string TieredStore::failure_of(const Sequence& sequence) const {
  return frames_->failure(static_cast<const TieredSequence&>(sequence));
}

// -- sequences --

bool TieredStore::release(TieredSequence& sequence) {
  if (!frames_->drop(sequence, 0)) return false;
  give_extents(std::span(sequence.extents).subspan(sequence.gone));
  return true;
}

void TieredStore::give_extents(std::span<const uint32_t> extents) noexcept {
  for (const uint32_t& extent : extents)
    if (extent != kNoExtent) extents_.give({&extent, 1});
}

// Units that a transfer still uses are given back by a later commit or by close.
void TieredStore::give_back(Sequence& of) {
  CheckedStore::give_back(of);
  TieredSequence& sequence = mine(of);
  bool all = true;
  for (uint32_t unit = sequence.gone; unit < unseen(sequence); ++unit) {
    const size_t first = layout_.index(unit, 0, 0);
    if (frames_->drop(sequence, first, first + layout_.regions)) {
      give_extents({&sequence.extents[unit], 1});
      sequence.extents[unit] = kNoExtent;
    } else {
      all = false;
    }
    if (all) sequence.gone = unit + 1;
  }
}

void TieredStore::release_closed() {
  frames_->poll();
  std::erase_if(closed_, [this](const auto& one) { return release(mine(*one)); });
}

void TieredStore::free_sequence(std::unique_ptr<Sequence> sequence) {
  try {
    frames_->wait_idle(mine(*sequence), kCloseSeconds);
  } catch (const std::bad_alloc&) {  // treated like a wait that took too long
  }
  if (!release(mine(*sequence))) closed_.push_back(std::move(sequence));
  try {
    release_closed();
  } catch (const std::bad_alloc&) {  // the next step tries again
  }
}

CheckedStore::SequenceOr TieredStore::copy_sequence(SeqId id, const Sequence& from) {
  const std::string what = fmt::format("fork of sequence {}", number(id));
  // Pinning changes the frames of the source, but not its rows.
  auto& source = const_cast<TieredSequence&>(static_cast<const TieredSequence&>(from));
  closed_.reserve(closed_.size() + 1);  // for the copy, if it fails with transfers under way
  auto copy = std::make_unique<TieredSequence>();
  const uint32_t gone = unseen(source), seen_tokens = source.length - gone * layout_.tokens;
  copy->extents.reserve(layout_.full(source.length));
  copy->frames.assign(size_t{layout_.touched(source.length)} * layout_.regions, kNoFrame);
  KVICK_TRY(const std::vector<uint32_t> extents, extents_.take(layout_.full(seen_tokens)));
  copy->extents.assign(gone, kNoExtent);
  copy->extents.insert(copy->extents.end(), extents.begin(), extents.end());
  copy->gone = gone;
  Need need = {.fresh = source.length % layout_.tokens != 0 ? layout_.regions : 0U};
  if (!extents.empty() && !layout_.loads) {
    need.layer = layout_.heads;
    need.useful = std::min<uint64_t>(extents.size() * layout_.regions, copied_together());
  }
  copy->first = source.first;
  copy->length = source.length;
  try {
    if (auto claimed = claim(need, what); !claimed.ok()) {
      extents_.give(extents);
      return claimed.error();
    }
    if (layout_.loads) load_units(source, *copy);
    const bool copied = layout_.loads || copy_units(source, *copy);
    if (copied && copy_tail(source, *copy)) {
      copied_bytes_ += seen_tokens * shape().token_bytes();
      return std::unique_ptr<Sequence>(std::move(copy));
    }
  } catch (const std::bad_alloc&) {
    free_sequence(std::move(copy));
    throw;
  }
  const std::string why =
      fmt::format("{}: {}{}", what, frames_->failure(source), frames_->failure(*copy));
  if (!release(*copy)) closed_.push_back(std::move(copy));
  return Shortage{.needed_bytes = source.length * shape().token_bytes(), .what = why};
}

uint64_t TieredStore::copied_together() const {
  return std::max<uint64_t>(kCopiedTogether / layout_.bytes, layout_.heads);
}

// Copies units through frames: as many at a time as there are spare frames for, and at least all
// heads of a layer. Returns false if either sequence has failed.
bool TieredStore::copy_units(TieredSequence& from, TieredSequence& to) {
  const size_t all = size_t{layout_.full(from.length)} * layout_.regions;
  std::vector<Unit> units;
  units.reserve(std::min<uint64_t>(all, copied_together()));
  const auto unpin = [&] {
    for (const Unit& unit : units) frames_->unpin(unit, false);
    units.clear();
  };
  for (size_t first = layout_.index(to.gone, 0, 0); first < all;) {
    try {
      copy_some(from, to, first, std::min(all, first + copied_together()), units);
    } catch (...) {
      unpin();
      throw;
    }
    first += units.size();
    unpin();
    if (!frames_->failure(from).empty() || !frames_->failure(to).empty()) return false;
  }
  return true;
}

// Copies unit by unit from where it is, in a frame or in the tier. What is written counts, and
// takes the tier's channel, as in TieredStep::store_full. A processor has many loads and stores
// under way, so all units together wait for the channel.
void TieredStore::load_units(const TieredSequence& from, const TieredSequence& to) {
  Tier& tier = frames_->tier();
  const size_t first = layout_.index(to.gone, 0, 0);
  const size_t all = size_t{layout_.full(from.length)} * layout_.regions;
  if (first >= all) return;
  const auto frames = std::span(from.frames).subspan(first, all - first);
  const auto loaded = static_cast<uint64_t>(std::count(frames.begin(), frames.end(), kNoFrame));
  begin_load(loaded * layout_.bytes);
  for (size_t index = first; index < all; ++index) {
    const FrameId frame = from.frames[index];
    std::memcpy(tier.memory() + at(to, index),
                frame == kNoFrame ? tier.memory() + at(from, index) : frames_->data(frame),
                layout_.bytes);
  }
  const uint64_t written = (all - first) * layout_.bytes;
  tier.wait_for_channel(written);  // returns when all loaded bytes have arrived
  tier.wait_for_channel(0);        // returns when all written bytes have arrived
  forked_bytes_ += written;
}

void TieredStore::begin_load(uint64_t bytes) {
  if (bytes == 0) return;
  loaded_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  frames_->tier().wait_for_channel(bytes);
}

// Copies units from `first` on, before `end`. units: appends the units that it pins, also if it
// throws.
void TieredStore::copy_some(TieredSequence& from, TieredSequence& to, size_t first, size_t end,
                            std::vector<Unit>& units) {
  for (size_t index = first; index < end; ++index) {
    const bool must = index < first + layout_.heads;
    const auto patience = must ? Frames::Patience::kWait : Frames::Patience::kSpare;
    if (!frames_->pin({&from, index}, at(from, index), patience)) {
      if (must) frames_->fail(to);
      break;
    }
    units.push_back({&from, index});
  }
  frames_->submit();
  frames_->wait(units);
  if (frames_->failure(from).empty())
    for (const Unit& unit : units) frames_->copy(unit, to, at(to, unit.index));
  frames_->wait_idle(to);
}

bool TieredStore::copy_tail(const TieredSequence& from, TieredSequence& to) {
  const size_t first = size_t{layout_.full(from.length)} * layout_.regions;
  for (size_t index = first; index < to.frames.size(); ++index) {
    if (!frames_->take({&to, index})) {
      frames_->fail(to);
      return false;
    }
    std::memcpy(frames_->data(to.frames[index]), frames_->data(from.frames[index]),
                from.length % layout_.tokens * layout_.pair_bytes);
  }
  return true;
}

// -- steps --

bool TieredStore::shows_all(const StepSlot& step_slot) const {
  return !setup().tier.asked || step_slot.reads_all ||
         setup().tier.asked(step_slot.sequence->length, step_slot.fresh) == kShowsAll;
}

TieredStore::Need TieredStore::need_of(std::span<const StepSlot> step_slots) const {
  Need need;
  for (const StepSlot& step_slot : step_slots) {
    const uint64_t length = step_slot.sequence->length, then = length + step_slot.fresh;
    need.fresh += uint64_t{layout_.touched(then) - layout_.touched(length)} * layout_.regions;
    const uint64_t full = layout_.full(length) - unseen(*step_slot.sequence);
    need.extents += layout_.full(then) - layout_.full(length);
    if (layout_.loads) {
      need.useful += full * layout_.regions;
      continue;
    }
    const uint64_t asked = shows_all(step_slot)
                               ? kShowsAll
                               : setup().tier.asked(step_slot.sequence->length, step_slot.fresh);
    need.layer += std::min(full, asked) * layout_.heads;
  }
  if (!layout_.loads) need.useful = shape().layers * need.layer;
  return need;
}

base::Status<Shortage> TieredStore::claim(const Need& need, const std::string& what) {
  const uint64_t now = frames_->counts().solid;
  const uint64_t least = now + need.fresh + need.layer, all = now + need.fresh + need.useful;
  if (auto shortage = over_cap(now * layout_.bytes, least * layout_.bytes, what)) return *shortage;
  const uint64_t charged = charge_up_to(std::min<uint64_t>(all, frames_->most()) * layout_.bytes);
  frames_->limit(static_cast<uint32_t>(std::min<uint64_t>(charged / layout_.bytes, kNoFrame - 1)));
  return base::Done{};
}

bool TieredStore::take_fresh(std::span<const StepSlot> step_slots) {
  for (const StepSlot& step_slot : step_slots) {
    TieredSequence& sequence = mine(*step_slot.sequence);
    const uint64_t rows = uint64_t{sequence.length} + step_slot.fresh;
    const size_t first = sequence.frames.size();
    if (const size_t full = layout_.full(rows); sequence.extents.capacity() < full)
      sequence.extents.reserve(std::max(full, 2 * sequence.extents.capacity()));
    sequence.frames.resize(size_t{layout_.touched(rows)} * layout_.regions, kNoFrame);
    for (size_t index = first; index < sequence.frames.size(); ++index)
      if (!frames_->take({&sequence, index})) return false;
  }
  return true;
}

// Drops the frames of rows that are not committed.
void TieredStore::drop_fresh(TieredSequence& sequence) {
  const size_t committed = size_t{layout_.touched(sequence.length)} * layout_.regions;
  frames_->drop(sequence, committed);
  sequence.frames.resize(committed);
}

CheckedStore::StepOr TieredStore::start(std::vector<StepSlot> step_slots) {
  release_closed();
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  const Need need = need_of(step_slots);
  KVICK_TRY(const std::vector<uint32_t> extents, extents_.take(need.extents));
  const auto undo = [&] {
    for (const StepSlot& step_slot : step_slots) drop_fresh(mine(*step_slot.sequence));
    extents_.give(extents);
  };
  try {
    auto claimed = claim(need, what);
    if (claimed.ok() && !take_fresh(step_slots))
      claimed = Shortage{.needed_bytes = need.fresh * layout_.bytes,
                         .what = fmt::format("{}: the slower tier frees no memory in time", what)};
    // Pass copies of the lists, because undo() may still need them.
    if (claimed.ok())
      return std::unique_ptr<CheckedStep>(
          std::make_unique<TieredStep>(*this, step_slots, extents, kept_frames(need)));
    undo();
    return claimed.error();
  } catch (const std::bad_alloc&) {
    undo();
    throw;
  }
}

// Returns how many frames a step keeps in memory after a layer's views.
uint64_t TieredStore::kept_frames(const Need& need) const {
  const FrameCounts counts = frames_->counts();
  const uint64_t passing = counts.limit - counts.solid, all = need.layer * shape().layers;
  // Where a policy asks for some rows, units are not used in a fixed order, so evict plainly by
  // LRU.
  if (setup().tier.asked) return 0;
  return all <= passing ? all : passing - std::min(passing, 2 * need.layer);
}

// -- counting --

uint64_t TieredStore::cached_bytes() const {
  const FrameCounts counts = frames_->counts();
  return (counts.taken - counts.solid) * layout_.bytes;
}

uint64_t TieredStore::evict(uint64_t bytes) {
  const uint64_t all = frames_->most() * layout_.bytes;
  const uint64_t frames = (std::min(bytes, all) + layout_.bytes - 1) / layout_.bytes;
  return frames_->evict(static_cast<uint32_t>(frames)) * layout_.bytes;
}

Usage TieredStore::count() const {
  Usage usage;
  const FrameCounts counts = frames_->counts();
  for_each_sequence([&](SeqId, const Sequence& sequence) {
    const uint32_t seen = sequence.length - sequence.first;
    usage.used_bytes += std::min(seen, sequence.length % layout_.tokens) * shape().token_bytes();
  });
  usage.allocated_bytes = counts.taken * layout_.bytes;
  usage.cached_bytes = cached_bytes();
  usage.slow_bytes = extents_.taken_bytes();
  usage.slow_read_bytes = counts.read_bytes + loaded_bytes_.load(std::memory_order_relaxed);
  usage.slow_written_bytes = counts.written_bytes + forked_bytes_;
  usage.copied_bytes = copied_bytes_;
  usage.page_bytes = layout_.bytes;
  return usage;
}

// Reports what each sequence has in frames.
std::vector<MapEntry> TieredStore::map() const {
  return piece_each([&](const Sequence& sequence) -> MapEntry {
    const auto& frames = static_cast<const TieredSequence&>(sequence).frames;
    const auto held = static_cast<uint64_t>(
        std::count_if(frames.begin(), frames.end(), [](FrameId id) { return id != kNoFrame; }));
    const uint64_t tokens = (held * layout_.tokens + layout_.regions - 1) / layout_.regions;
    return {.bytes = held * layout_.bytes,
            .used_tokens =
                static_cast<uint32_t>(std::min<uint64_t>(sequence.length - sequence.first, tokens)),
            .tokens = static_cast<uint32_t>(tokens)};
  });
}

}  // namespace kvick::kv
