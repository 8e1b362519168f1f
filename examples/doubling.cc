// A cache strategy that is built outside of kvick and loaded with --kv-plugin. `doubling` keeps the
// rows of each sequence and layer in one piece of memory, as std::vector does. When the piece is
// full, one of twice the size replaces it. A sequence of N tokens copies fewer than 2 N rows in
// total, and up to half of its memory is spare.
//
// ContiguousStore does most of the work: the layout of a head's rows, steps, forks. This file only
// decides where memory comes from and what it costs.

#include <algorithm>
#include <cstring>

#include "kv/rows/row_block.h"
#include "kv/stores/contiguous.h"
#include "kv/strategy/options.h"
#include "kv/strategy/plugin.h"
#include "kv/values/saturating.h"

namespace {

namespace kv = kvick::kv;

constexpr kv::Option kOptions[] = {
    {.name = "first", .summary = "rows of the first piece of memory", .fallback = "16"}};

// Returns the rows of a piece that has room for `rows`: first, 2 first, 4 first, ..., but at most
// the context.
uint32_t capacity_for(uint32_t rows, uint32_t first, uint32_t context) {
  uint64_t capacity = rows == 0 ? 0 : first;
  while (capacity < rows) capacity *= 2;
  return static_cast<uint32_t>(std::min<uint64_t>(capacity, context));
}

struct DoublingSequence : kv::ContiguousSequence {
  std::vector<kv::RowBlock> pieces;  // per layer
  uint32_t capacity = 0;             // rows of each piece
};

class DoublingStore final : public kv::ContiguousStore {
 public:
  DoublingStore(const kv::Setup& setup, uint32_t first) : ContiguousStore(setup), first_(first) {}

 private:
  static DoublingSequence& mine(kv::Sequence& sequence) {
    return static_cast<DoublingSequence&>(sequence);
  }
  uint64_t bytes_of(uint64_t rows) const { return rows * shape().token_bytes(); }

  std::unique_ptr<kv::Sequence> make_sequence(std::span<const kv::Token>,
                                              const kv::Owner&) override {
    auto sequence = std::make_unique<DoublingSequence>();
    sequence->layers.resize(shape().layers);
    sequence->pieces.resize(shape().layers);
    return sequence;
  }
  void free_sequence(std::unique_ptr<kv::Sequence> sequence) override {
    allocated_bytes_ -= bytes_of(mine(*sequence).capacity);
  }
  uint64_t sequence_bytes(const kv::ContiguousSequence& sequence) const override {
    return bytes_of(static_cast<const DoublingSequence&>(sequence).capacity);
  }
  kvick::kernels::Bucket bucket_of(const kv::ContiguousSequence& sequence,
                                   uint32_t) const override {
    return {0, static_cast<const DoublingSequence&>(sequence).capacity};
  }
  void use(kv::ContiguousSequence&, uint32_t, uint32_t) override {}  // the memory exists already

  // A sequence's new pieces with copies of its rows. Until move_rows() the sequence still reads its
  // old pieces.
  struct Grown {
    DoublingSequence* sequence;
    uint32_t capacity;
    std::vector<kv::RowBlock> pieces;
  };

  kvick::base::Status<kv::Shortage> make_room(std::span<const kv::StepSlot> step_slots) override {
    std::vector<Grown> grown;
    uint64_t then = allocated_bytes_;  // peak bytes: old and new pieces exist at the same time
    for (const kv::StepSlot& step_slot : step_slots) {
      DoublingSequence& sequence = mine(*step_slot.sequence);
      const uint32_t rows = sequence.length + step_slot.fresh;
      if (rows <= sequence.capacity) continue;
      grown.push_back({&sequence, capacity_for(rows, first_, shape().max_tokens), {}});
      then += bytes_of(grown.back().capacity);
    }
    if (auto shortage = over_cap(allocated_bytes_, then,
                                 fmt::format("a step of {} sequences", step_slots.size())))
      return *shortage;
    try {
      for (Grown& one : grown) allocate(one);
    } catch (const std::bad_alloc&) {  // no sequence has changed
      return refused(then - allocated_bytes_);
    }
    for (Grown& one : grown) move_rows(one);
    return kvick::base::Done{};
  }

  SequenceOr make_room_for_fork(kv::SeqId id, const kv::ContiguousSequence& from) override {
    auto sequence = make_sequence({}, {});
    Grown grown = {&mine(*sequence), capacity_for(from.length, first_, shape().max_tokens), {}};
    const uint64_t then = allocated_bytes_ + bytes_of(grown.capacity);
    if (auto shortage = over_cap(allocated_bytes_, then,
                                 fmt::format("fork of sequence {}", static_cast<uint32_t>(id))))
      return *shortage;
    try {
      allocate(grown);
    } catch (const std::bad_alloc&) {
      return refused(bytes_of(grown.capacity));
    }
    move_rows(grown);
    return sequence;
  }

  static kv::Shortage refused(uint64_t bytes) {
    return {.needed_bytes = bytes,
            .available_bytes = 0,
            .what = fmt::format("the system refuses {} more bytes of cache", bytes)};
  }

  void allocate(Grown& grown) const {
    const uint64_t bytes = bytes_of(grown.capacity) / shape().layers;
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      grown.pieces.push_back(kv::make_row_block(bytes));
      // A library may compute over spare rows too, so they must hold numbers.
      std::memset(grown.pieces.back().get(), 0, bytes);
    }
  }

  // Allocates nothing, so it cannot fail.
  void move_rows(Grown& grown) {
    DoublingSequence& sequence = *grown.sequence;
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      const kv::LayerRows rows = {.data = grown.pieces[layer].get(),
                                  .k_bytes = grown.capacity * shape().row_bytes(false),
                                  .v_bytes = grown.capacity * shape().row_bytes(true),
                                  .heads = shape().kv_heads};
      for (uint32_t head = 0; head < rows.heads && sequence.length > 0; ++head)
        for (const bool is_v : {false, true})
          std::memcpy(rows.region(head, is_v), sequence.layers[layer].region(head, is_v),
                      sequence.length * shape().row_bytes(is_v));
      sequence.layers[layer] = rows;
    }
    allocated_bytes_ += bytes_of(grown.capacity) - bytes_of(sequence.capacity);
    copied_bytes_ += bytes_of(sequence.length);
    sequence.capacity = grown.capacity;
    sequence.pieces = std::move(grown.pieces);
  }

  uint32_t first_;
};

kvick::base::Result<uint32_t> first_of(const kv::Setup& setup, const kv::Spec& spec) {
  if (setup.shape.window > 0)
    return kvick::base::fail("{} keeps all rows, and this model has layers with a window",
                             spec.name);
  KVICK_TRY(const uint64_t first, kv::read_number(spec, kOptions[0], 1, 1 << 20));
  return static_cast<uint32_t>(first);
}

kvick::base::Result<std::unique_ptr<kv::RowStore>> make(const kv::Setup& setup,
                                                        const kv::Spec& spec) {
  KVICK_TRY(const uint32_t first, first_of(setup, spec));
  return std::unique_ptr<kv::RowStore>(std::make_unique<DoublingStore>(setup, first));
}

// Returns the cost that the store will report, to the byte.
kvick::base::Result<kv::Cost> cost(const kv::Setup& setup, const kv::Spec& spec,
                                   const kv::Load& load) {
  KVICK_TRY(const uint32_t first, first_of(setup, spec));
  const uint32_t context = setup.shape.max_tokens;
  uint64_t moved = 0;
  uint32_t capacity = 0;
  for (uint64_t rows = 0; rows < load.tokens;) {
    const uint64_t then = std::min<uint64_t>(rows + load.step, load.tokens);
    if (then > capacity) {
      moved += rows;
      capacity = capacity_for(static_cast<uint32_t>(then), first, context);
    }
    rows = then;
  }
  const auto bytes = [&](uint64_t rows) {
    return kv::saturating_mul(load.sequences, kv::saturating_mul(rows, setup.shape.token_bytes()));
  };
  return kv::Cost{.fast_bytes = bytes(capacity),
                  .slow_bytes = 0,
                  .read_bytes_per_token = load.tokens * setup.shape.token_bytes(),
                  .copied_bytes = bytes(moved)};
}

const kv::Strategy kStrategies[] = {
    {.name = "doubling",
     .summary = "contiguous, in memory of twice the size whenever it is full (an example plugin)",
     .options = kOptions,
     .traits = {.buckets = true, .holds_old = true, .moves_rows = true},
     .make_rows = make,
     .cost = cost}};
const kv::StrategyPlugin kPlugin = {.strategies = kStrategies};

}  // namespace

extern "C" const kv::StrategyPlugin* kvick_strategies() { return &kPlugin; }
