#pragma once
// A store and steps that forward all calls to those of another store, for tests that change one
// call.

#include <memory>

#include "kv/contract/kv.h"

namespace kvick::model {

class PassingStep : public kv::Step {
 public:
  explicit PassingStep(std::unique_ptr<kv::Step> inner) : inner_(std::move(inner)) {}
  void write(uint32_t layer, const float* k, const float* v) override {
    inner_->write(layer, k, v);
  }
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override {
    inner_->view(query, scratch, out);
  }
  void commit(const kv::Kept& kept) override { inner_->commit(kept); }

 protected:
  std::unique_ptr<kv::Step> inner_;
};

// A store whose steps are of the type Step, each over a step of the inner store. It has no facets.
template <typename Step>
class PassingStore : public kv::Store {
 public:
  explicit PassingStore(std::unique_ptr<kv::Store> inner)
      : Store(inner->info()), inner_(std::move(inner)) {}
  kv::Opened open(std::span<const kv::Token> prompt, const kv::Owner& owner) override {
    return inner_->open(prompt, owner);
  }
  base::Result<kv::SeqId, kv::Shortage> fork(kv::SeqId seq) override { return inner_->fork(seq); }
  void close(kv::SeqId seq) override { inner_->close(seq); }
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override {
    KVICK_TRY(std::unique_ptr<kv::Step> step, inner_->begin(batch));
    return std::unique_ptr<kv::Step>(std::make_unique<Step>(std::move(step)));
  }
  uint32_t length(kv::SeqId seq) const override { return inner_->length(seq); }
  kv::Usage usage() const override { return inner_->usage(); }

 protected:
  std::unique_ptr<kv::Store> inner_;
};

}  // namespace kvick::model
