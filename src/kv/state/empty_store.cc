#include "kv/state/empty_store.h"

#include "base/check.h"

namespace kvick::kv {
namespace {

class EmptyStep final : public CheckedStep {
 public:
  using CheckedStep::CheckedStep;

 private:
  void write_rows(uint32_t layer, const float*, const float*) override {
    KVICK_CHECK(false, "rows of layer {}, which keeps none", layer);
  }
  void view_rows(const Query& query, base::Arena&, kernels::View&) override {
    KVICK_CHECK(false, "a view of layer {}, which keeps no rows", query.layer);
  }
  void keep_rows(uint32_t slot, std::span<const uint32_t> rows) override {
    step_slots()[slot].sequence->length += static_cast<uint32_t>(rows.size());
  }
};

}  // namespace

std::unique_ptr<Sequence> EmptyStore::make_sequence(std::span<const Token>, const Owner&) {
  return std::make_unique<Sequence>();
}

CheckedStore::SequenceOr EmptyStore::copy_sequence(SeqId, const Sequence& from) {
  auto copy = std::make_unique<Sequence>();
  copy->length = from.length;
  return copy;
}

void EmptyStore::free_sequence(std::unique_ptr<Sequence>) {}

CheckedStore::StepOr EmptyStore::start(std::vector<StepSlot> step_slots) {
  return std::unique_ptr<CheckedStep>(std::make_unique<EmptyStep>(*this, std::move(step_slots)));
}

}  // namespace kvick::kv
