#include "kv/stores/bucket.h"

#include <algorithm>
#include <cstring>

#include "kv/rows/row_block.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

struct BucketSequence : ContiguousSequence {
  std::vector<RowBlock> blocks;  // per layer
};

uint32_t capacity_for(const Shape& shape, const Growth& growth, uint64_t rows) {
  const uint64_t unit = growth.unit_rows;
  return static_cast<uint32_t>(
      std::min<uint64_t>((rows + unit - 1) / unit * unit, shape.max_tokens));
}

// The rows of one sequence before a step. Layers differ in capacity after the system refused memory
// for one of them.
struct Room {
  uint64_t length = 0, first = 0;  // committed rows [first, length) are visible
  uint64_t base = 0;               // first row in the blocks
  uint64_t least = 0, most = 0;    // smallest and largest capacity of a layer, in rows
};
// How a step changes a sequence's blocks.
struct Move {
  uint32_t capacity = 0;  // of the new blocks, in rows; 0: keep the old ones
  bool smaller = false;   // some old block is larger than the new ones
  bool needed = false;    // false: the rows would fit into the old blocks, too
  bool to_front = false;  // moves the visible rows to the front of the old blocks
};

// Returns the capacity in rows of a new block for a step of `fresh` rows, which fit the context. It
// is the same for all steps of up to a unit of fresh rows; otherwise steps of changing size would
// move the window again and again.
uint32_t capacity_for_step(const Shape& shape, const Growth& growth, const Room& room,
                           uint64_t fresh) {
  const uint64_t seen = room.length - room.first + fresh;
  const uint32_t grown =
      capacity_for(shape, growth, growth.at_every_step ? seen : room.length + fresh);
  if (shape.window == 0) return grown;
  const uint64_t unit = std::min(growth.unit_rows, growth.most_spare_rows);
  return static_cast<uint32_t>(
      std::min<uint64_t>(grown, shape.window - uint64_t{1} + std::max(unit, fresh)));
}

Move move_for(const Shape& shape, const Growth& growth, const Room& room, uint64_t fresh) {
  const uint32_t wanted = capacity_for_step(shape, growth, room, fresh);
  const Move grown = {.capacity = wanted, .smaller = wanted < room.most};
  const bool needed = room.length - room.first + fresh > room.least;
  if (needed || growth.at_every_step)
    return {.capacity = wanted, .smaller = grown.smaller, .needed = true};
  const bool fits_behind = room.length - room.base + fresh <= room.least;
  const uint64_t unit = std::min(growth.unit_rows, growth.most_spare_rows);
  const bool too_large =
      shape.window > 0 && room.most > shape.window - uint64_t{1} + fresh + unit - 1;
  // A larger block lets the window move only once per unit.
  if (too_large || (!fits_behind && wanted > room.least)) return grown;
  return {.to_front = !fits_behind};
}

class BucketStore final : public ContiguousStore, public Buckets {
 public:
  BucketStore(const Setup& setup, const Growth& growth) : ContiguousStore(setup), growth_(growth) {}

  StoreFacets facets() override {
    StoreFacets facets = ContiguousStore::facets();
    if (!growth_.at_every_step) facets.buckets = this;
    return facets;
  }
  uint32_t spare_rows(SeqId seq) const override {
    const Room room = room_of(static_cast<const BucketSequence&>(find(seq)));
    uint64_t capacity = room.least, front = room.base;
    // At the end of the context there is no step of one row.
    if (room.length < shape().max_tokens) {
      const Move move = move_for(shape(), growth_, room, 1);
      if (move.capacity > 0) capacity = move.capacity;
      if (move.capacity > 0 || move.to_front) front = room.first;
    }
    const uint64_t rows = room.length - front;
    return static_cast<uint32_t>(rows < capacity ? capacity - rows : 1);
  }

 private:
  static BucketSequence& bucket(Sequence& sequence) {
    return static_cast<BucketSequence&>(sequence);
  }

  uint64_t layer_bytes(uint32_t capacity) const {
    return uint64_t{capacity} * shape().token_bytes() / shape().layers;
  }
  uint32_t capacity(const ContiguousSequence& sequence, uint32_t layer) const {
    return static_cast<uint32_t>(sequence.layers[layer].k_bytes / shape().row_bytes(false));
  }
  Room room_of(const ContiguousSequence& sequence) const {
    Room room = {.length = sequence.length,
                 .first = sequence.first,
                 .base = sequence.base,
                 .least = UINT64_MAX};
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      room.least = std::min<uint64_t>(room.least, capacity(sequence, layer));
      room.most = std::max<uint64_t>(room.most, capacity(sequence, layer));
    }
    return room;
  }

  std::unique_ptr<BucketSequence> empty() const {
    auto sequence = std::make_unique<BucketSequence>();
    sequence->layers.resize(shape().layers);
    sequence->blocks.resize(shape().layers);
    return sequence;
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return empty();
  }

  SequenceOr make_room_for_fork(SeqId id, const ContiguousSequence& from) override {
    auto sequence = empty();
    if (from.length == from.first) {
      sequence->first = sequence->base = from.first;
      return std::unique_ptr<Sequence>(std::move(sequence));
    }
    const uint32_t capacity = capacity_for_step(shape(), growth_, room_of(from), 0);
    const uint64_t then = allocated_bytes_ + shape().layers * layer_bytes(capacity);
    if (auto shortage =
            over_cap(allocated_bytes_, then, fmt::format("fork of sequence {}", uint32_t(id))))
      return *shortage;
    try {
      grow(*sequence, capacity);
    } catch (const std::bad_alloc&) {
      free_sequence(std::move(sequence));
      return refused(then);
    }
    sequence->first = sequence->base = from.first;
    return std::unique_ptr<Sequence>(std::move(sequence));
  }

  uint64_t sequence_bytes(const ContiguousSequence& sequence) const override {
    uint64_t bytes = 0;
    for (uint32_t layer = 0; layer < shape().layers; ++layer)
      bytes += layer_bytes(capacity(sequence, layer));
    return bytes;
  }

  void free_sequence(std::unique_ptr<Sequence> sequence) override {
    allocated_bytes_ -= sequence_bytes(bucket(*sequence));
  }

  Move move_of(const StepSlot& step_slot, bool only_needed) const {
    const Room room = room_of(bucket(*step_slot.sequence));
    const Move move = move_for(shape(), growth_, room, step_slot.fresh);
    if (move.capacity == 0 || move.needed || !only_needed) return move;
    return {.to_front = room.length - room.base + step_slot.fresh > room.least};
  }

  std::vector<Move> moves_of(std::span<const StepSlot> step_slots, bool only_needed) const {
    std::vector<Move> moves;
    for (const StepSlot& step_slot : step_slots) moves.push_back(move_of(step_slot, only_needed));
    return moves;
  }
  // Calls use() for each slot that gets new blocks, shrinking ones first because they free memory.
  template <class Use>
  void for_each_growth(std::span<const StepSlot> step_slots, std::span<const Move> moves,
                       const Use& use) const {
    for (const bool smaller : {true, false})
      for (size_t i = 0; i < step_slots.size(); ++i) {
        BucketSequence& sequence = bucket(*step_slots[i].sequence);
        const uint32_t rows = moves[i].capacity;
        if (rows > 0 && moves[i].smaller == smaller) use(sequence, rows);
      }
  }

  // Returns the most bytes held at once while the blocks grow layer by layer: a layer's old rows
  // are freed once they have been copied.
  uint64_t peak_bytes(std::span<const StepSlot> step_slots, std::span<const Move> moves) const {
    uint64_t held = allocated_bytes_, peak = held;
    for_each_growth(step_slots, moves, [&](const BucketSequence& sequence, uint32_t rows) {
      for (uint32_t layer = 0; layer < shape().layers; ++layer) {
        peak = std::max(peak, held + layer_bytes(rows));
        held += layer_bytes(rows) - layer_bytes(capacity(sequence, layer));
      }
    });
    return peak;
  }

  base::Status<Shortage> make_room(std::span<const StepSlot> step_slots) override {
    const std::string what = fmt::format("a step of {} sequences", step_slots.size());
    std::vector<Move> moves = moves_of(step_slots, false);
    // The new block briefly exists beside the old one. Without room for both, the old one stays.
    if (shape().window > 0 && shortage_of(allocated_bytes_, peak_bytes(step_slots, moves), what))
      moves = moves_of(step_slots, true);
    const uint64_t peak = peak_bytes(step_slots, moves);
    if (auto shortage = over_cap(allocated_bytes_, peak, what)) return *shortage;
    try {
      for_each_growth(step_slots, moves,
                      [&](BucketSequence& sequence, uint32_t rows) { grow(sequence, rows); });
    } catch (const std::bad_alloc&) {  // layers that have grown keep their new size and all rows
      return refused(peak);
    }
    for (size_t i = 0; i < step_slots.size(); ++i)
      if (moves[i].to_front) move_to_front(bucket(*step_slots[i].sequence), 0);
    return base::Done{};
  }

  Shortage refused(uint64_t then) const {
    const uint64_t needed = then - allocated_bytes_;
    return {.needed_bytes = needed,
            .available_bytes = 0,
            .what = fmt::format("the system refuses {} more bytes of cache", needed)};
  }

  // Moves the visible rows to the front in all layers from begin_layer on; earlier layers have them
  // there.
  void move_to_front(BucketSequence& sequence, uint32_t begin_layer) {
    const uint32_t seen = sequence.length - sequence.first;
    const uint32_t from = sequence.first - sequence.base;
    sequence.base = sequence.first;
    if (from == 0) return;
    for (uint32_t layer = begin_layer; layer < shape().layers; ++layer) {
      const LayerRows& rows = sequence.layers[layer];
      for (uint32_t head = 0; head < rows.heads; ++head)
        for (const bool is_v : {false, true}) {
          const size_t row = shape().row_bytes(is_v);
          std::byte* const region = rows.region(head, is_v);
          std::memmove(region, region + from * row, seen * row);
        }
      copied_bytes_ += seen * shape().token_bytes() / shape().layers;
    }
  }

  // Moves the visible rows into new blocks of `rows` rows, starting at the front. Throws
  // std::bad_alloc only between two layers; even then the first visible row is at the front in all
  // layers.
  void grow(BucketSequence& sequence, uint32_t rows) {
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      try {
        grow_layer(sequence, layer, rows);
      } catch (const std::bad_alloc&) {
        move_to_front(sequence, layer);
        throw;
      }
    }
    sequence.base = sequence.first;
  }

  void grow_layer(BucketSequence& sequence, uint32_t layer, uint32_t rows) {
    const uint32_t seen = sequence.length - sequence.first;
    const uint32_t from = sequence.first - sequence.base;
    RowBlock block = make_row_block(layer_bytes(rows));
    LayerRows& old = sequence.layers[layer];
    const LayerRows grown = {.data = block.get(),
                             .k_bytes = rows * shape().row_bytes(false),
                             .v_bytes = rows * shape().row_bytes(true),
                             .heads = shape().kv_heads};
    for (uint32_t head = 0; head < grown.heads; ++head)
      for (const bool is_v : {false, true}) {
        const size_t row = shape().row_bytes(is_v), kept = seen * row;
        std::byte* to = grown.region(head, is_v);
        if (kept > 0) std::memcpy(to, old.region(head, is_v) + from * row, kept);
        std::memset(to + kept, 0, (is_v ? grown.v_bytes : grown.k_bytes) - kept);
      }
    allocated_bytes_ += layer_bytes(rows) - layer_bytes(capacity(sequence, layer));
    copied_bytes_ += seen * shape().token_bytes() / shape().layers;
    old = grown;
    sequence.blocks[layer] = std::move(block);
  }

  kernels::Bucket bucket_of(const ContiguousSequence& sequence, uint32_t layer) const override {
    return {0, capacity(sequence, layer)};
  }
  void use(ContiguousSequence&, uint32_t, uint32_t) override {}

  Growth growth_;
};

// Returns the rows moved by steps that add several rows: each growth moves the rows of all earlier
// steps.
uint64_t moved_rows(const Shape& shape, const Growth& growth, const Load& load) {
  uint64_t moved = 0, capacity = 0;
  for (uint64_t rows = 0; rows < load.tokens;) {
    const uint64_t then = std::min<uint64_t>(rows + load.step, load.tokens);
    if (then > capacity || growth.at_every_step) {
      moved += rows;
      capacity = capacity_for(shape, growth, then);
    }
    rows = then;
  }
  return moved;
}

// Computes the cost with a window, where rows also move within their blocks.
Cost window_cost(const Shape& shape, const Growth& growth, const Load& load) {
  Room room;
  uint64_t moved = 0;  // rows
  while (room.length < load.tokens) {
    const uint64_t fresh = std::min<uint64_t>(load.step, load.tokens - room.length);
    const Move move = move_for(shape, growth, room, fresh);
    if (move.capacity > 0) room.least = room.most = move.capacity;
    if (move.capacity > 0 || move.to_front) {
      moved += room.length - room.first;
      room.base = room.first;
    }
    room.length += fresh;
    room.first = shape.first_seen(static_cast<uint32_t>(room.length));
  }
  const auto bytes = [&](uint64_t rows) {
    return saturating_mul(load.sequences, saturating_mul(rows, shape.token_bytes()));
  };
  return {.fast_bytes = bytes(room.most),
          .slow_bytes = 0,
          .read_bytes_per_token = shape.seen_rows(load.tokens) * shape.token_bytes(),
          .copied_bytes = bytes(moved)};
}

}  // namespace

std::unique_ptr<RowStore> make_bucket_store(const Setup& setup, const Growth& growth) {
  return std::make_unique<BucketStore>(setup, growth);
}

Cost bucket_cost(const Setup& setup, const Growth& growth, const Load& load) {
  const Shape& shape = setup.shape;
  if (shape.window > 0) return window_cost(shape, growth, load);
  const uint64_t token = shape.token_bytes(), sequences = load.sequences;
  const uint64_t unit = growth.unit_rows;
  const uint64_t growths = (load.tokens + unit - 1) / unit;
  // The i-th growth moves the i * unit rows stored so far.
  const uint64_t pairs = growths == 0       ? 0
                         : growths % 2 == 0 ? saturating_mul(growths / 2, growths - 1)
                                            : saturating_mul(growths, (growths - 1) / 2);
  const uint64_t moved =
      load.step == 1 ? saturating_mul(unit, pairs) : moved_rows(shape, growth, load);
  return {.fast_bytes = saturating_mul(
              sequences, saturating_mul(capacity_for(shape, growth, load.tokens), token)),
          .slow_bytes = 0,
          .read_bytes_per_token = saturating_mul(load.tokens, token),
          .copied_bytes = saturating_mul(sequences, saturating_mul(moved, token))};
}

}  // namespace kvick::kv
