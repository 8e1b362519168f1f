#include "kv/contiguous.h"

#include <cstring>

#include "kv/fresh_rows.h"
#include "kv/segment.h"

namespace kvick::kv {

class ContiguousStep final : public CheckedStep {
 public:
  ContiguousStep(ContiguousStore& store, std::vector<Place> places)
      : CheckedStep(store, std::move(places)), store_(store) {
    for (const Place& place : this->places()) {
      const uint32_t length = place.sequence->length;
      runs_.push_back(
          {.past = {.row = 0, .rows = length, .pos = 0},
           .fresh = {.row = length, .rows = place.fresh, .pos = length},
           .bucket = {0, store_.bucket_rows(static_cast<ContiguousSequence&>(*place.sequence),
                                            length + place.fresh)}});
    }
  }

 private:
  struct Runs {
    kernels::Run past, fresh;
    kernels::Bucket bucket;
  };

  ContiguousSequence& sequence(uint32_t slot) const {
    return static_cast<ContiguousSequence&>(*places()[slot].sequence);
  }

  void write_rows(uint32_t layer, const float* k, const float* v) override {
    for (uint32_t slot = 0; slot < places().size(); ++slot) {
      ContiguousSequence& sequence = this->sequence(slot);
      store_.use(sequence, layer, sequence.length + places()[slot].fresh);
    }
    write_fresh_rows(store_.setup(), places(), {layer, k, v},
                     [&](uint32_t slot, uint32_t head, bool is_v, uint32_t row) {
                       const ContiguousSequence& sequence = this->sequence(slot);
                       return sequence.layers[layer].region(head, is_v) +
                              (sequence.length + row) * store_.shape().row_bytes(is_v);
                     });
  }

  void view_rows(const Ask& ask, base::Arena&, kernels::View& out) override {
    const LayerRows& rows = sequence(ask.slot).layers[ask.layer];
    const Runs& runs = runs_[ask.slot];
    kernels::Segment segment =
        segment_of(store_.setup(), ask, rows.region(ask.head, false), rows.region(ask.head, true));
    segment.bucket = runs.bucket;
    out = {};
    segment.runs = {&runs.past, 1};
    if (runs.past.rows > 0) out.past.push_back(segment);
    segment.runs = {&runs.fresh, 1};
    out.fresh = segment;
  }

  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override {
    ContiguousSequence& sequence = this->sequence(slot);
    uint32_t in_place = 0;  // rows of the path that are where they belong
    while (in_place < kept.size() && kept[in_place] == in_place) ++in_place;
    for (const LayerRows& rows : sequence.layers)
      for (uint32_t head = 0; head < rows.heads; ++head)
        for (const bool is_v : {false, true}) {
          const size_t row = store_.shape().row_bytes(is_v);
          std::byte* fresh = rows.region(head, is_v) + sequence.length * row;
          // Ascending: no row is overwritten before it has moved.
          for (size_t i = in_place; i < kept.size(); ++i)
            std::memcpy(fresh + i * row, fresh + kept[i] * row, row);
        }
    store_.copied_bytes_ += (kept.size() - in_place) * store_.shape().token_bytes();
    sequence.length += static_cast<uint32_t>(kept.size());
  }

  ContiguousStore& store_;
  std::vector<Runs> runs_;  // per slot; views point into it
};

std::unique_ptr<Sequence> ContiguousStore::make_sequence(std::span<const Token>) {
  auto sequence = std::make_unique<ContiguousSequence>();
  sequence->layers.resize(shape().layers);
  return sequence;
}

CheckedStore::SequenceOr ContiguousStore::copy_sequence(SeqId id, const Sequence& from) {
  const auto& source = static_cast<const ContiguousSequence&>(from);
  KVICK_TRY(std::unique_ptr<Sequence> made, make_room_for_fork(id, source.length));
  auto& copy = static_cast<ContiguousSequence&>(*made);
  copy.length = source.length;
  if (source.length == 0) return made;
  for (uint32_t layer = 0; layer < shape().layers; ++layer) {
    use(copy, layer, source.length);
    const LayerRows &to = copy.layers[layer], &rows = source.layers[layer];
    for (uint32_t head = 0; head < shape().kv_heads; ++head)
      for (const bool is_v : {false, true})
        std::memcpy(to.region(head, is_v), rows.region(head, is_v),
                    source.length * shape().row_bytes(is_v));
  }
  copied_bytes_ += source.length * shape().token_bytes();
  return made;
}

CheckedStore::StepOr ContiguousStore::start(std::vector<Place> places) {
  KVICK_TRY_VOID(make_room(places));
  return std::unique_ptr<CheckedStep>(std::make_unique<ContiguousStep>(*this, std::move(places)));
}

Usage ContiguousStore::count() const {
  Usage usage;
  usage.used_bytes = tokens() * shape().token_bytes();
  usage.allocated_bytes = allocated_bytes_;
  usage.copied_bytes = copied_bytes_;
  return usage;
}

}  // namespace kvick::kv
