#pragma once
// A few layers of a model's shape with random weights, as a real forward runs them: what its speed
// is measured on without the model.

#include <memory>

#include "base/clock.h"
#include "kv/registry/registry.h"
#include "model/core/executor.h"
#include "plan/forecast/model_size.h"

namespace kvick::plan {

struct SampleModel {
  // All weights alike, of the float types and of the others. Matrices are packed copies of them,
  // but tables that tokens look up are read here.
  std::vector<std::byte> floats, blocks;
  std::unique_ptr<model::Model> model;
};

// About `layers` layer numbers, ascending: of each kind of layer in proportion, evenly spaced so
// that types of weights are in proportion too, and at least one per kind.
std::vector<uint32_t> sample_layers(const model::Config& config, uint32_t layers);

// The shape's model with these layers. ranks: then the config is that of their first one's share,
// which the model is (rank_share.h). Error: whatever is wrong with the shape, as
// model::Model::load says it; layers that are not what the whole model's are, because they depend
// on their number in a way that a sample cannot follow.
base::Result<SampleModel> make_sample(const ModelSize& size, uint32_t layers,
                                      base::ThreadPool& pool, const kernels::Table& kernels,
                                      model::Ranks* ranks = nullptr);

struct ForwardSeconds {
  double begin = 0;    // room for the new rows
  double forward = 0;  // all layers and, if asked for, the logits; without compiling
};

// A sample with a cache.
class Sample {
 public:
  // setup: of the store, whose layers and tokens are the sample's own. Errors: as above, and what
  // kv::make_store refuses.
  static base::Result<Sample> make(SampleModel model, const kv::Spec& spec, kv::Setup setup,
                                   model::Workspace workspace, base::Clock clock);

  const model::Model& model() const { return executor_.model(); }
  // Sequences that hold nothing yet, in place of those that there were.
  void open(uint32_t sequences);
  // Appends `tokens` tokens with random rows to each sequence.
  base::Status<kv::Shortage> fill(uint32_t tokens);
  uint32_t length() const { return store_->length(seqs_.front()); }  // tokens that each holds
  // `tokens` more for each; logits: of each one's last. A single token is kept, as in an answer:
  // what a store does with rows that are not would be part of the next one's time.
  base::Result<ForwardSeconds, kv::Shortage> forward(uint32_t tokens, bool logits);

 private:
  Sample(SampleModel model, std::unique_ptr<kv::Store> store, model::Workspace workspace,
         base::Clock clock)
      : model_(std::move(model)),
        store_(std::move(store)),
        executor_(*model_.model, std::move(workspace)),
        clock_(clock) {}
  double compiled_s();

  SampleModel model_;
  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  base::Clock clock_;
  std::vector<kv::SeqId> seqs_;
};

}  // namespace kvick::plan
