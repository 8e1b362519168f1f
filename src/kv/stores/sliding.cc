// The static sliding cache of "LLM Technical Notes: KV Cache Implementation for inference on HTP",
// for engines that support static shapes only. Every KV head has one tensor of past keys and one of
// past values, each of exactly S - 1 rows, padded on the left. S is the context, or the layers'
// window if smaller. The tensor is a window into a buffer of reserve * (S - 1) rows: a new row is
// written behind the window, and appending it moves the window by one row, which is pointer
// arithmetic. At the end of the buffer the window's rows are copied to its start once. A sequence
// may grow without end; each step sees the last S - 1 rows before it.

#include "kv/stores/sliding.h"

#include <algorithm>
#include <cstring>

#include "kv/rows/fresh_rows.h"
#include "kv/rows/layer_rows.h"
#include "kv/rows/row_block.h"
#include "kv/rows/segment.h"
#include "kv/strategy/options.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

constexpr uint64_t kOne = 1'000'000;  // a reserve of 1.0

constexpr Option kOptions[] = {
    {.name = "reserve",
     .summary = "rows of the buffer, as a multiple of the context less one (rounded up to whole "
                "rows); the part above 1 is filled with new rows between two copies",
     .fallback = "2.0"}};

constexpr Traits kTraits = {.endless = true};

// Returns the bytes of one layer with `rows` rows per head.
uint64_t layer_bytes(const Shape& shape, uint64_t rows) {
  return saturating_mul(rows, shape.token_bytes() / shape.layers);
}
LayerRows layer_rows(const Shape& shape, std::byte* data, uint64_t rows) {
  return {.data = data,
          .k_bytes = rows * shape.row_bytes(false),
          .v_bytes = rows * shape.row_bytes(true),
          .heads = shape.kv_heads};
}
std::byte* row_of(const Shape& shape, const LayerRows& rows, uint32_t head, bool is_v,
                  uint64_t row) {
  return rows.region(head, is_v) + row * shape.row_bytes(is_v);
}

struct SlidingSequence : Sequence {
  std::vector<RowBlock> blocks;   // per layer; empty before the first step
  std::vector<LayerRows> layers;  // the buffers in them
  uint64_t offset = 0;            // row of the buffer where the window begins
  uint32_t held = 0;              // valid rows, at the window's end; the rows before them are zero
};

// Where a slot's fresh rows go.
struct Output {
  bool behind = true;  // fresh rows go behind the window, so appending moves nothing
  // Otherwise: the step's own output tensors, which the commit appends. They are not part of the
  // cache and not counted in its usage. [layer][head] of StepSlot::fresh rows.
  std::vector<RowBlock> blocks;
  std::vector<LayerRows> layers;
};

class SlidingStore;

class SlidingStep final : public CheckedStep {
 public:
  SlidingStep(SlidingStore& store, std::vector<StepSlot> step_slots, std::vector<Output> outputs);

 private:
  struct Runs {
    kernels::Run past, fresh;
  };

  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  SlidingSequence& sequence(uint32_t slot) const {
    return static_cast<SlidingSequence&>(*step_slots()[slot].sequence);
  }
  // Row 0 of a slot's fresh rows.
  std::byte* fresh_rows(uint32_t slot, uint32_t layer, uint32_t head, bool is_v) const;
  void append(uint32_t slot, std::span<const uint32_t> kept);

  SlidingStore& store_;
  std::vector<Output> outputs_;  // per slot
  std::vector<Runs> runs_;       // per slot; views point into it
};

class SlidingStore final : public CheckedStore {
 public:
  SlidingStore(const Setup& setup, const Sliding& sliding, uint32_t most_tokens)
      : CheckedStore(setup, most_tokens), sliding_(sliding) {}

  std::vector<MapEntry> map() const override {
    return piece_each([&](const Sequence& of) -> MapEntry {
      const auto& sequence = static_cast<const SlidingSequence&>(of);
      if (sequence.blocks.empty()) return {};
      return {.bytes = sequence_bytes(),
              .used_tokens = seen(sequence),
              .tokens = static_cast<uint32_t>(sliding_.rows())};
    });
  }

 private:
  friend class SlidingStep;
  static SlidingSequence& mine(Sequence& sequence) {
    return static_cast<SlidingSequence&>(sequence);
  }
  // Valid rows that the next token sees: in a chunked window not those before the chunk.
  static uint32_t seen(const SlidingSequence& sequence) {
    return std::min(sequence.held, sequence.length - sequence.first);
  }
  uint64_t sequence_bytes() const { return shape().layers * layer_bytes(shape(), sliding_.rows()); }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return std::make_unique<SlidingSequence>();
  }

  // Allocates zeroed buffers with an empty window at their start. Throws std::bad_alloc and changes
  // nothing.
  void allocate(SlidingSequence& sequence) {
    const uint64_t bytes = layer_bytes(shape(), sliding_.rows());
    std::vector<RowBlock> blocks;
    std::vector<LayerRows> layers;
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      blocks.push_back(make_row_block(bytes));
      std::memset(blocks.back().get(), 0, bytes);
      layers.push_back(layer_rows(shape(), blocks.back().get(), sliding_.rows()));
    }
    sequence.blocks = std::move(blocks);
    sequence.layers = std::move(layers);
    allocated_bytes_ += sequence_bytes();
  }

  SequenceOr copy_sequence(SeqId id, const Sequence& from) override {
    const auto& source = static_cast<const SlidingSequence&>(from);
    auto copy = std::make_unique<SlidingSequence>();
    if (source.length == 0) return std::unique_ptr<Sequence>(std::move(copy));
    const uint64_t then = allocated_bytes_ + sequence_bytes();
    if (auto shortage =
            over_cap(allocated_bytes_, then, fmt::format("fork of sequence {}", uint32_t(id))))
      return *shortage;
    try {
      allocate(*copy);
    } catch (const std::bad_alloc&) {
      return refused(sequence_bytes());
    }
    copy->length = source.length;
    copy->first = source.first;
    copy->held = source.held;
    move_rows(source, source.held, *copy, sliding_.window);
    return std::unique_ptr<Sequence>(std::move(copy));
  }

  void free_sequence(std::unique_ptr<Sequence> sequence) override {
    if (!mine(*sequence).blocks.empty()) allocated_bytes_ -= sequence_bytes();
  }

  // Copies the last `rows` valid rows of a window to rows [end - rows, end) of `to`.
  void move_rows(const SlidingSequence& from, uint32_t rows, SlidingSequence& to, uint64_t end) {
    const uint64_t source = from.offset + sliding_.window - rows;
    for (uint32_t layer = 0; layer < shape().layers; ++layer)
      for (uint32_t head = 0; head < shape().kv_heads; ++head)
        for (const bool is_v : {false, true})
          std::memmove(row_of(shape(), to.layers[layer], head, is_v, end - rows),
                       row_of(shape(), from.layers[layer], head, is_v, source),
                       rows * shape().row_bytes(is_v));
    copied_bytes_ += rows * shape().token_bytes();
  }

  StepOr start(std::vector<StepSlot> step_slots) override {
    uint64_t buffers = 0;
    for (const StepSlot& step_slot : step_slots)
      buffers += mine(*step_slot.sequence).blocks.empty() ? 1 : 0;
    const uint64_t then = allocated_bytes_ + saturating_mul(buffers, sequence_bytes());
    if (auto shortage = over_cap(allocated_bytes_, then,
                                 fmt::format("a step of {} sequences", step_slots.size())))
      return *shortage;
    std::vector<Output> outputs(step_slots.size());
    for (size_t i = 0; i < step_slots.size(); ++i) {
      SlidingSequence& sequence = mine(*step_slots[i].sequence);
      outputs[i].behind = step_slots[i].fresh <= sliding_.spare();
      try {
        if (sequence.blocks.empty()) allocate(sequence);
        if (!outputs[i].behind) make_outputs(step_slots[i].fresh, outputs[i]);
      } catch (const std::bad_alloc&) {  // buffers made so far stay, empty
        return refused(sequence_bytes() +
                       saturating_mul(step_slots[i].fresh, shape().token_bytes()));
      }
    }
    for (size_t i = 0; i < step_slots.size(); ++i)
      if (outputs[i].behind) make_room(mine(*step_slots[i].sequence), step_slots[i].fresh);
    return std::unique_ptr<CheckedStep>(
        std::make_unique<SlidingStep>(*this, std::move(step_slots), std::move(outputs)));
  }

  void make_outputs(uint32_t rows, Output& output) const {
    const uint64_t bytes = layer_bytes(shape(), rows);
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      output.blocks.push_back(make_row_block(bytes));
      output.layers.push_back(layer_rows(shape(), output.blocks.back().get(), rows));
    }
  }

  // Makes room behind the window for fresh rows, at most the spare ones. At the end of the buffer
  // the window moves back to the start. That loses no row, so a dropped step need not undo it.
  void make_room(SlidingSequence& sequence, uint32_t fresh) {
    if (sequence.offset + sliding_.window + fresh <= sliding_.rows()) return;
    move_rows(sequence, sequence.held, sequence, sliding_.window);
    sequence.offset = 0;
  }

  static Shortage refused(uint64_t bytes) {
    return {.needed_bytes = bytes,
            .available_bytes = 0,
            .what = fmt::format("the system refuses {} more bytes of cache", bytes)};
  }

  uint64_t held_bytes() const override { return allocated_bytes_; }
  Usage count() const override {
    Usage usage;
    for_each_sequence([&](SeqId, const Sequence& sequence) {
      usage.used_bytes +=
          seen(static_cast<const SlidingSequence&>(sequence)) * shape().token_bytes();
    });
    usage.allocated_bytes = allocated_bytes_;
    usage.copied_bytes = copied_bytes_;
    return usage;
  }

  Sliding sliding_;
  uint64_t allocated_bytes_ = 0, copied_bytes_ = 0;
};

SlidingStep::SlidingStep(SlidingStore& store, std::vector<StepSlot> step_slots,
                         std::vector<Output> outputs)
    : CheckedStep(store, std::move(step_slots)), store_(store), outputs_(std::move(outputs)) {
  for (uint32_t slot = 0; slot < this->step_slots().size(); ++slot) {
    const SlidingSequence& sequence = this->sequence(slot);
    const uint32_t length = sequence.length, held = store_.seen(sequence);
    runs_.push_back(
        {.past = {.row = store_.sliding_.window - held, .rows = held, .pos = length - held},
         .fresh = {.row = 0, .rows = this->step_slots()[slot].fresh, .pos = length}});
  }
}

std::byte* SlidingStep::fresh_rows(uint32_t slot, uint32_t layer, uint32_t head, bool is_v) const {
  if (!outputs_[slot].behind) return outputs_[slot].layers[layer].region(head, is_v);
  const SlidingSequence& sequence = this->sequence(slot);
  return row_of(store_.shape(), sequence.layers[layer], head, is_v,
                sequence.offset + store_.sliding_.window);
}

void SlidingStep::write_rows(uint32_t layer, const float* k, const float* v) {
  write_fresh_rows(store_.setup(), step_slots(), {.layer = layer, .k = k, .v = v},
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t row) {
                     return fresh_rows(slot, layer, head, is_v) +
                            row * store_.shape().row_bytes(is_v);
                   });
}

// Row 0 of the past is the window's first row. Its S - 1 rows are the input tensor of a static
// graph, zero before the first valid row. The runs tell attention only the valid rows.
void SlidingStep::view_rows(const Query& query, base::Arena&, kernels::View& out) {
  const SlidingSequence& sequence = this->sequence(query.slot);
  const Shape& shape = store_.shape();
  const auto window = [&](bool is_v) {
    return row_of(shape, sequence.layers[query.layer], query.head, is_v, sequence.offset);
  };
  const auto fresh = [&](bool is_v) {
    return fresh_rows(query.slot, query.layer, query.head, is_v);
  };
  out = {};
  if (runs_[query.slot].past.rows > 0) {
    kernels::Segment past =
        segment_of(store_.setup(), query.layer, query.head, window(false), window(true));
    past.runs = {&runs_[query.slot].past, 1};
    out.past.push_back(past);
  }
  out.fresh = segment_of(store_.setup(), query.layer, query.head, fresh(false), fresh(true));
  out.fresh.runs = {&runs_[query.slot].fresh, 1};
}

void SlidingStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  SlidingSequence& sequence = this->sequence(slot);
  const auto added = static_cast<uint32_t>(kept.size());
  const uint32_t window = store_.sliding_.window;
  append(slot, kept);
  sequence.held =
      static_cast<uint32_t>(std::min<uint64_t>(window, uint64_t{sequence.held} + added));
  sequence.length += added;
}

// Moves the kept rows to the end of the window and moves the window over them.
void SlidingStep::append(uint32_t slot, std::span<const uint32_t> kept) {
  SlidingSequence& sequence = this->sequence(slot);
  const Shape& shape = store_.shape();
  const uint32_t window = store_.sliding_.window;
  const bool behind = outputs_[slot].behind;
  uint64_t in_place = 0;  // kept rows that are already in their final place
  while (behind && in_place < kept.size() && kept[in_place] == in_place) ++in_place;
  // Drop rows that have already left the window.
  if (kept.size() > window) kept = kept.last(window);
  const auto added = static_cast<uint32_t>(kept.size());
  const uint64_t offset = sequence.offset;
  if (offset + window + added <= store_.sliding_.rows()) {
    sequence.offset += added;
  } else {
    store_.move_rows(sequence, std::min(sequence.held, window - added), sequence, window - added);
    sequence.offset = 0;
  }
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head)
      for (const bool is_v : {false, true}) {
        const size_t row = shape.row_bytes(is_v);
        // If the fresh rows are behind the window, at its old offset:
        const std::byte* from = row_of(shape, sequence.layers[layer], head, is_v, offset + window);
        if (!behind) from = fresh_rows(slot, layer, head, is_v);
        std::byte* to =
            row_of(shape, sequence.layers[layer], head, is_v, sequence.offset + window - added);
        // In ascending order no row is overwritten before it has moved.
        for (uint64_t i = in_place; i < added; ++i)
          std::memcpy(to + i * row, from + kept[i] * row, row);
      }
  store_.copied_bytes_ += (added - in_place) * shape.token_bytes();
}

// Returns the rows moved by a sequence that grows by one token per step. With spare rows: before
// token i * spare, at each copy, the min(i * spare, window) rows present. Without spare rows the
// commit of token i leaves min(i, window) rows, all moved or appended.
uint64_t moved_rows(const Sliding& sliding, uint64_t tokens) {
  if (tokens == 0 || sliding.window == 0) return 0;
  const uint64_t every = std::max<uint64_t>(1, sliding.spare());
  const uint64_t turns = sliding.spare() == 0 ? tokens : (tokens - 1) / every;
  // The first copies find a window that is not yet full.
  const uint64_t rising = std::min(turns, sliding.window / every);
  const uint64_t pairs = rising % 2 == 0 ? saturating_mul(rising / 2, rising + 1)
                                         : saturating_mul(rising, (rising + 1) / 2);
  return saturating_mul(every, pairs) + saturating_mul(turns - rising, sliding.window);
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const Sliding sliding, sliding_of(setup.shape, spec));
  return std::unique_ptr<Store>(
      std::make_unique<SlidingStore>(setup, sliding, most_tokens(kTraits, setup)));
}

base::Result<Cost> cost(const Setup& setup, const Spec& spec, const Load& load) {
  KVICK_TRY(const Sliding sliding, sliding_of(setup.shape, spec));
  const uint64_t token = setup.shape.token_bytes(), sequences = load.sequences;
  const uint64_t read = std::min<uint64_t>(setup.shape.seen_rows(load.tokens), sliding.window + 1);
  return Cost{
      .fast_bytes =
          load.tokens == 0 ? 0 : saturating_mul(sequences, saturating_mul(sliding.rows(), token)),
      .slow_bytes = 0,
      .read_bytes_per_token = saturating_mul(read, token),
      .copied_bytes =
          saturating_mul(sequences, saturating_mul(moved_rows(sliding, load.tokens), token))};
}

}  // namespace

base::Result<Sliding> sliding_of(const Shape& shape, const Spec& spec) {
  KVICK_TRY(const uint64_t reserve, read_decimal(spec, kOptions[0], kOne, 2 * kOne));
  const uint32_t seen = shape.window > 0 ? shape.window : UINT32_MAX;
  return Sliding{.window = std::min(shape.max_tokens, seen) - 1, .reserve = reserve};
}

uint64_t sliding_formula_bytes(const Shape& shape, const Sliding& sliding) {
  const uint64_t rows = sliding.window * sliding.reserve, token = shape.token_bytes();
  const uint64_t whole = saturating_mul(rows / kOne, token);
  const uint64_t part = saturating_mul(rows % kOne, token);
  const uint64_t bytes = part == UINT64_MAX ? UINT64_MAX : (part + kOne - 1) / kOne;
  return whole > UINT64_MAX - bytes ? UINT64_MAX : whole + bytes;
}

Strategy sliding_strategy() {
  return {.name = "sliding",
          .summary =
              "static shapes: the last S - 1 rows of a head as a window that slides through a "
              "buffer, S being the context; never full (HTP notes)",
          .options = kOptions,
          .traits = kTraits,
          .make = make,
          .cost = cost};
}

}  // namespace kvick::kv
