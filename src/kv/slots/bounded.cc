// The cache of the Bounded-Cache Transformer (Yi et al. 2024, section 3.2). Each layer and KV head
// has M slots: their keys MK are weights of the model, and every token adds to their values MV:
// MV_t = MV_{t-1} + softmax(k_t * MK^T)^T * v_t. Here k_t is the token's write query and v_t its
// write value times its step size. A token reads softmax(q_t * MK^T) * MV_t. The floats that the
// model carries from one token to the next (SlotReader::carry) are stored behind the values. See
// docs/adr/0008-a-memory-of-slots.md.

#include <cstring>

#include "base/check.h"
#include "kv/slots/bounded_step.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

uint64_t slots_bytes(const Setup& setup) {
  const Shape& shape = setup.shape;
  const uint64_t values = uint64_t{shape.kv_heads} * setup.slots->slots * shape.head_dim;
  return saturating_mul(shape.layers, (values + setup.slots->carried) * sizeof(float));
}

class BoundedStore final : public CheckedStore {
 public:
  explicit BoundedStore(const Setup& setup) : CheckedStore(setup), workers_(setup.compute.pool) {}

  // The slots have room for any number of tokens.
  std::vector<MapEntry> map() const override {
    return piece_each([&](const Sequence& of) -> MapEntry {
      const auto& sequence = static_cast<const SlotSequence&>(of);
      return {.bytes = sequence.values != nullptr ? slots_bytes(setup()) : 0,
              .used_tokens = sequence.length,
              .tokens = sequence.length};
    });
  }

 private:
  static SlotSequence& cast(Sequence& sequence) { return static_cast<SlotSequence&>(sequence); }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return std::make_unique<SlotSequence>();
  }
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override {
    if (cast(*sequence).values != nullptr) allocated_bytes_ -= slots_bytes(setup());
  }
  StepOr start(std::vector<StepSlot> step_slots) override;
  uint64_t held_bytes() const override { return allocated_bytes_; }
  Usage count() const override;
  RowBlock first_values() const;
  Shortage refused(uint64_t needed) const {
    return {.needed_bytes = needed,
            .available_bytes = 0,
            .what = fmt::format("the system refuses {} more bytes of cache", needed)};
  }

  uint64_t allocated_bytes_ = 0, copied_bytes_ = 0;
  Workers workers_;
};

RowBlock BoundedStore::first_values() const {
  const size_t bytes = slots_bytes(setup());
  RowBlock values = make_row_block(bytes);
  const std::span<const float> initial = setup().slots->initial;
  if (!initial.empty()) std::memcpy(values.get(), initial.data(), initial.size_bytes());
  std::memset(values.get() + initial.size_bytes(), 0, bytes - initial.size_bytes());
  return values;
}

CheckedStore::SequenceOr BoundedStore::copy_sequence(SeqId id, const Sequence& from) {
  auto copy = std::make_unique<SlotSequence>();
  if (from.length == 0) return std::unique_ptr<Sequence>(std::move(copy));
  const uint64_t bytes = slots_bytes(setup()), then = allocated_bytes_ + bytes;
  const std::string what = fmt::format("fork of sequence {}", static_cast<uint32_t>(id));
  if (auto shortage = over_cap(allocated_bytes_, then, what)) return *shortage;
  try {
    copy->values = make_row_block(bytes);
  } catch (const std::bad_alloc&) {
    return refused(bytes);
  }
  copy->length = from.length;
  std::memcpy(copy->values.get(), static_cast<const SlotSequence&>(from).values.get(), bytes);
  allocated_bytes_ = then;
  copied_bytes_ += bytes;
  return std::unique_ptr<Sequence>(std::move(copy));
}

CheckedStore::StepOr BoundedStore::start(std::vector<StepSlot> step_slots) {
  const uint64_t bytes = slots_bytes(setup());
  uint64_t then = allocated_bytes_;
  for (const StepSlot& step_slot : step_slots)
    if (cast(*step_slot.sequence).values == nullptr) then += bytes;
  const std::string what = fmt::format("a step of {} sequences", step_slots.size());
  if (auto shortage = over_cap(allocated_bytes_, then, what)) return *shortage;
  const uint64_t rows = (step_slots.back().first + step_slots.back().fresh) * shape().token_bytes();
  const uint64_t needed = then - allocated_bytes_ + rows;
  try {
    for (const StepSlot& step_slot : step_slots) {
      SlotSequence& sequence = cast(*step_slot.sequence);
      if (sequence.values != nullptr) continue;
      sequence.values = first_values();
      allocated_bytes_ += bytes;
    }
    return std::unique_ptr<CheckedStep>(
        std::make_unique<BoundedStep>(*this, std::move(step_slots), setup(), workers_));
  } catch (const std::bad_alloc&) {
    return refused(needed);
  }
}

Usage BoundedStore::count() const {
  Usage usage;
  for_each_sequence([&](SeqId, const Sequence& sequence) {
    if (sequence.length > 0) usage.used_bytes += slots_bytes(setup());
  });
  usage.allocated_bytes = allocated_bytes_;
  usage.copied_bytes = copied_bytes_;
  return usage;
}

base::Status<> check(const Setup& setup) {
  using kernels::DType;
  const Shape& shape = setup.shape;
  if (shape.k_type != DType::kF32 || shape.v_type != DType::kF32)
    return base::fail(
        "bounded adds every token to the same memory, which it keeps as f32: leave the type of "
        "keys and values out, or give f32");
  const Slots& slots = *setup.slots;
  const uint64_t heads = uint64_t{shape.layers} * shape.kv_heads;
  KVICK_CHECK(slots.slots > 0 && slots.keys.size() == heads, "{} keys of {} slots for {} heads",
              slots.keys.size(), slots.slots, heads);
  for (const kernels::Matrix& keys : slots.keys)
    KVICK_CHECK(keys.rows == slots.slots && keys.inputs >= shape.head_dim &&
                    !kernels::pack_format(keys.dtype).quantised,
                "keys of {} x {}", keys.rows, keys.inputs);
  KVICK_CHECK(slots.initial.empty() || slots.initial.size() == heads * slots.slots * shape.head_dim,
              "{} initial values", slots.initial.size());
  return base::Done{};
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Spec&) {
  KVICK_TRY_VOID(check(setup));
  return std::unique_ptr<Store>(std::make_unique<BoundedStore>(setup));
}

base::Result<Cost> cost(const Setup& setup, const Spec&, const Load& load) {
  KVICK_TRY_VOID(check(setup));
  uint64_t key_bytes = 0;
  for (const kernels::Matrix& keys : setup.slots->keys) key_bytes += keys.data.size();
  const uint64_t bytes = load.tokens == 0 ? 0 : slots_bytes(setup);
  return Cost{.fast_bytes = saturating_mul(load.sequences, bytes),
              .slow_bytes = 0,
              .read_bytes_per_token = load.tokens == 0 ? 0 : bytes + key_bytes,
              .copied_bytes = 0};
}

}  // namespace

Strategy bounded_strategy() {
  return {.name = "bounded",
          .summary =
              "a memory of a fixed number of slots, for models that were trained with one "
              "(architecture bct)",
          .options = {},
          .traits = {.exact = false, .slots = true},
          .make = make,
          .cost = cost};
}

}  // namespace kvick::kv
