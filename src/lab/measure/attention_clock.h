#pragma once
// Times attention within whole steps of a model.

#include <atomic>

#include "base/clock.h"
#include "kv/contract/kv.h"
#include "model/core/workspace.h"

namespace kvick::lab {

// Measures the time of all layers' attention in one forward: of each layer from its first view of
// rows to the next linear layer. That includes a policy's choice of rows and reading them from a
// slower tier, the conversion of attention's result for the linear layer and, with latent
// attention, the projection of the values; not writing the rows.
//
// Give it to Executor::Step::forward in place of the step's rows, and to Workspace::observer for
// the same forward.
class AttentionClock final : public kv::Step, public model::InputObserver {
 public:
  explicit AttentionClock(kv::Step& inner, base::Clock clock = base::steady_seconds)
      : inner_(inner), clock_(clock) {}

  double seconds() const { return seconds_; }

  void write(uint32_t layer, const float* k, const float* v) override;
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override;
  void commit(const kv::Kept& kept) override;
  kv::StepFacets facets() override { return inner_.facets(); }
  void see(const model::Linear& linear, const float* x, uint32_t tokens) override;

 private:
  kv::Step& inner_;
  base::Clock clock_;
  std::atomic<bool> running_ = false;
  double began_ = 0, seconds_ = 0;
};

}  // namespace kvick::lab
