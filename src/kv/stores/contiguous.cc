#include "kv/stores/contiguous.h"

#include <algorithm>
#include <cstring>

#include "kv/rows/fresh_rows.h"
#include "kv/rows/segment.h"

namespace kvick::kv {

class ContiguousStep final : public RowStep {
 public:
  ContiguousStep(ContiguousStore& store, std::vector<StepSlot> step_slots)
      : RowStep(store, std::move(step_slots)), store_(store) {}
  ~ContiguousStep() override {
    if (committed_) return;
    for (uint32_t slot = 0; slot < step_slots().size(); ++slot)
      store_.settle(sequence(slot), false);
  }

 private:
  ContiguousSequence& sequence(uint32_t slot) const {
    return static_cast<ContiguousSequence&>(*step_slots()[slot].sequence);
  }

  void use(uint32_t layer) override {
    for (uint32_t slot = 0; slot < step_slots().size(); ++slot) {
      ContiguousSequence& sequence = this->sequence(slot);
      store_.use(sequence, layer, sequence.length + step_slots()[slot].fresh);
    }
  }

  void wrote(uint32_t layer) override {
    for (uint32_t slot = 0; slot < step_slots().size(); ++slot) store_.wrote(sequence(slot), layer);
  }

  std::byte* fresh_row(uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                       uint32_t i) const override {
    const ContiguousSequence& sequence = this->sequence(slot);
    return sequence.layers[layer].region(head, is_v) +
           (sequence.length - sequence.base + i) * store_.shape().row_bytes(is_v);
  }

  void write_fresh(const LayerInput& input) override {
    write_fresh_rows(store_.setup(), step_slots(), input,
                     [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                       return fresh_row(slot, input.layer, head, is_v, i);
                     });
  }

  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override {
    ContiguousSequence& sequence = this->sequence(slot);
    uint32_t in_place = 0;  // kept rows that are already in their final place
    while (in_place < kept.size() && kept[in_place] == in_place) ++in_place;
    for (const LayerRows& rows : sequence.layers)
      for (uint32_t head = 0; head < rows.heads; ++head)
        for (const bool is_v : {false, true}) {
          const size_t row = store_.shape().row_bytes(is_v);
          std::byte* fresh = rows.region(head, is_v) + (sequence.length - sequence.base) * row;
          // In ascending order no row is overwritten before it has moved.
          for (size_t i = in_place; i < kept.size(); ++i)
            std::memcpy(fresh + i * row, fresh + kept[i] * row, row);
        }
    store_.copied_bytes_ += (kept.size() - in_place) * store_.shape().token_bytes();
    sequence.length += static_cast<uint32_t>(kept.size());
    store_.settle(sequence, true);
    committed_ = true;
  }

  ContiguousStore& store_;
  bool committed_ = false;
};

void ContiguousStore::add_runs(const Sequence& sequence, uint32_t begin, uint32_t end,
                               std::vector<kernels::Run>& runs) const {
  const uint32_t base = static_cast<const ContiguousSequence&>(sequence).base;
  if (begin < end) runs.push_back({.row = begin - base, .rows = end - begin, .pos = begin});
}

kernels::Segment ContiguousStore::segment(const Sequence& sequence, uint32_t layer,
                                          uint32_t head) const {
  const auto& mine = static_cast<const ContiguousSequence&>(sequence);
  const LayerRows& rows = mine.layers[layer];
  kernels::Segment segment =
      segment_of(setup(), layer, head, rows.region(head, false), rows.region(head, true));
  segment.bucket = bucket_of(mine, layer);
  return segment;
}

std::unique_ptr<Sequence> ContiguousStore::make_sequence(std::span<const Token>, const Owner&) {
  auto sequence = std::make_unique<ContiguousSequence>();
  sequence->layers.resize(shape().layers);
  return sequence;
}

CheckedStore::SequenceOr ContiguousStore::copy_sequence(SeqId id, const Sequence& from) {
  const auto& source = static_cast<const ContiguousSequence&>(from);
  KVICK_TRY(std::unique_ptr<Sequence> made, make_room_for_fork(id, source));
  made->length = source.length;
  if (source.length > source.first)
    copy_rows(source, source.first, static_cast<ContiguousSequence&>(*made));
  return made;
}

void ContiguousStore::copy_rows(const ContiguousSequence& from, uint32_t begin,
                                ContiguousSequence& to) {
  to.length = from.length;
  for (uint32_t layer = 0; layer < shape().layers; ++layer) {
    use(to, layer, from.length);
    for (uint32_t head = 0; head < shape().kv_heads; ++head)
      for (const bool is_v : {false, true}) {
        const size_t row = shape().row_bytes(is_v);
        std::memcpy(to.layers[layer].region(head, is_v) + (begin - to.base) * row,
                    from.layers[layer].region(head, is_v) + (begin - from.base) * row,
                    (from.length - begin) * row);
      }
    wrote(to, layer);
  }
  copied_bytes_ += (from.length - begin) * shape().token_bytes();
}

CheckedStore::StepOr ContiguousStore::start(std::vector<StepSlot> step_slots) {
  KVICK_TRY_VOID(make_room(step_slots));
  return std::unique_ptr<CheckedStep>(
      std::make_unique<ContiguousStep>(*this, std::move(step_slots)));
}

std::vector<MapEntry> ContiguousStore::map() const {
  return piece_each([&](const Sequence& sequence) -> MapEntry {
    const uint64_t bytes = sequence_bytes(static_cast<const ContiguousSequence&>(sequence));
    const uint32_t used = sequence.length - sequence.first;
    // A fork counts only the bytes that it does not share.
    const uint64_t tokens =
        std::clamp<uint64_t>(bytes / shape().token_bytes(), used, shape().max_tokens);
    return {.bytes = bytes, .used_tokens = used, .tokens = static_cast<uint32_t>(tokens)};
  });
}

Usage ContiguousStore::count() const {
  Usage usage;
  for_each_sequence([&](SeqId, const Sequence& sequence) {
    usage.used_bytes += (sequence.length - sequence.first) * shape().token_bytes();
  });
  usage.allocated_bytes = allocated_bytes_;
  usage.copied_bytes = copied_bytes_;
  return usage;
}

}  // namespace kvick::kv
