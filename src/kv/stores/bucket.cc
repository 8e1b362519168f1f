#include "kv/stores/bucket.h"

#include <algorithm>
#include <cstring>

#include "kv/contract/saturating.h"
#include "kv/rows/row_block.h"

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

class BucketStore final : public ContiguousStore {
 public:
  BucketStore(const Setup& setup, const Growth& growth) : ContiguousStore(setup), growth_(growth) {}

  uint32_t spare_rows(SeqId seq) const override {
    if (growth_.at_every_step) return UINT32_MAX;
    const auto& sequence = static_cast<const BucketSequence&>(find(seq));
    const uint32_t rows = std::max(capacity(sequence, shape().layers - 1),
                                   capacity_for(shape(), growth_, uint64_t{sequence.length} + 1));
    return std::max(rows - sequence.length, 1U);
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

  std::unique_ptr<BucketSequence> empty() const {
    auto sequence = std::make_unique<BucketSequence>();
    sequence->layers.resize(shape().layers);
    sequence->blocks.resize(shape().layers);
    return sequence;
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return empty();
  }

  SequenceOr make_room_for_fork(SeqId id, uint32_t rows) override {
    auto sequence = empty();
    if (rows == 0) return std::unique_ptr<Sequence>(std::move(sequence));
    const uint32_t capacity = capacity_for(shape(), growth_, rows);
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

  // The capacity that a place grows to, 0 if it has room.
  uint32_t wanted(const Place& place) const {
    const auto& sequence = bucket(*place.sequence);
    const uint64_t rows = uint64_t{sequence.length} + place.fresh;
    const uint32_t last = shape().layers - 1;
    if (!growth_.at_every_step && rows <= capacity(sequence, last)) return 0;
    return capacity_for(shape(), growth_, rows);
  }

  // The most bytes that are held at once while all places grow, one layer after the other: the old
  // rows of a layer are given back when they have been copied.
  uint64_t peak_bytes(std::span<const Place> places) const {
    uint64_t held = allocated_bytes_, peak = held;
    for (const Place& place : places) {
      const uint32_t rows = wanted(place);
      if (rows == 0) continue;
      for (uint32_t layer = 0; layer < shape().layers; ++layer) {
        peak = std::max(peak, held + layer_bytes(rows));
        held += layer_bytes(rows) - layer_bytes(capacity(bucket(*place.sequence), layer));
      }
    }
    return peak;
  }

  base::Status<Shortage> make_room(std::span<const Place> places) override {
    const uint64_t peak = peak_bytes(places);
    if (auto shortage =
            over_cap(allocated_bytes_, peak, fmt::format("a step of {} sequences", places.size())))
      return *shortage;
    try {
      for (const Place& place : places)
        if (const uint32_t rows = wanted(place)) grow(bucket(*place.sequence), rows);
    } catch (const std::bad_alloc&) {  // layers that have grown keep their new size, and every row
      return refused(peak);
    }
    return base::Done{};
  }

  Shortage refused(uint64_t then) const {
    const uint64_t needed = then - allocated_bytes_;
    return {.needed_bytes = needed,
            .available_bytes = 0,
            .what = fmt::format("the system refuses {} more bytes of cache", needed)};
  }

  // Throws std::bad_alloc between two layers, never within one.
  void grow(BucketSequence& sequence, uint32_t rows) {
    const uint32_t heads = shape().kv_heads;
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      RowBlock block = make_row_block(layer_bytes(rows));
      LayerRows& old = sequence.layers[layer];
      const LayerRows grown = {.data = block.get(),
                               .k_bytes = rows * shape().row_bytes(false),
                               .v_bytes = rows * shape().row_bytes(true),
                               .heads = heads};
      for (uint32_t head = 0; head < heads; ++head)
        for (const bool is_v : {false, true}) {
          const size_t committed = sequence.length * shape().row_bytes(is_v);
          std::byte* to = grown.region(head, is_v);
          if (committed > 0) std::memcpy(to, old.region(head, is_v), committed);
          std::memset(to + committed, 0, (is_v ? grown.v_bytes : grown.k_bytes) - committed);
        }
      allocated_bytes_ += layer_bytes(rows) - layer_bytes(capacity(sequence, layer));
      copied_bytes_ += sequence.length * shape().token_bytes() / shape().layers;
      old = grown;
      sequence.blocks[layer] = std::move(block);
    }
  }

  uint32_t bucket_rows(const ContiguousSequence& sequence, uint32_t layer) const override {
    return capacity(sequence, layer);
  }
  void use(ContiguousSequence&, uint32_t, uint32_t) override {}

  Growth growth_;
};

// The same of steps that add several rows: a growth moves what the steps before have added.
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

}  // namespace

std::unique_ptr<Store> make_bucket_store(const Setup& setup, const Growth& growth) {
  return std::make_unique<BucketStore>(setup, growth);
}

Cost bucket_cost(const Setup& setup, const Growth& growth, const Load& load) {
  const Shape& shape = setup.shape;
  const uint64_t token = shape.token_bytes(), sequences = load.sequences;
  const uint64_t unit = growth.unit_rows;
  const uint64_t growths = (load.tokens + unit - 1) / unit;
  // The i-th growth moves the i * unit rows that are there.
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
