#pragma once
// A few layers of a model's shape with random weights, run by real forwards: measures the speed of
// a model without having it.

#include <memory>

#include "base/clock.h"
#include "kv/registry/registry.h"
#include "model/core/executor.h"
#include "plan/forecast/model_size.h"

namespace kvick::plan {

struct SampleModel {
  // Random bytes of which all weights are made: those of float types, and the others. Matrices are
  // packed copies, but tables that tokens look up are read from here.
  std::vector<std::byte> floats, blocks;
  std::unique_ptr<model::Model> model;
  kernels::DType state_type = kernels::DType::kF32;  // of the states that a Sample's cache keeps
};

// Returns about `layers` layer numbers, ascending: of each kind of layer in proportion, and at
// least one. They are evenly spaced, so that types of weights are in proportion too.
std::vector<uint32_t> sample_layers(const model::Config& config, uint32_t layers);

// Makes a model of the shape with about `layers` layers. ranks: the shape and the model are the
// share of their first rank (rank_share.h). Errors: those of model::Model::load; layers that differ
// from the whole model's, because they depend on their number in a way that a sample cannot follow.
base::Result<SampleModel> make_sample(const ModelSize& size, uint32_t layers,
                                      base::ThreadPool& pool, const kernels::Table& kernels,
                                      model::Ranks* ranks = nullptr);

struct ForwardSeconds {
  double begin = 0;    // making room for the new rows
  double forward = 0;  // all layers and, if wanted, the logits; without compiling
};

// A sample with a cache.
class Sample {
 public:
  // setup: of the store; its layers are set to the sample's. Errors: those of kv::make_store.
  static base::Result<Sample> make(SampleModel model, const kv::Spec& spec, kv::Setup setup,
                                   model::Workspace workspace, base::Clock clock);

  const model::Model& model() const { return executor_.model(); }
  // Replaces all sequences by `sequences` empty ones.
  void open(uint32_t sequences);
  // Appends `tokens` tokens with random rows to each sequence.
  base::Status<kv::Shortage> fill(uint32_t tokens);
  uint32_t length() const { return store_->length(seqs_.front()); }  // tokens of each sequence
  // Computes `tokens` more tokens of each sequence; logits: also those of each one's last token;
  // role: arithmetic. A single token is committed, as in an answer, since the store's work for
  // dropped rows would count in the next token's time. More tokens are dropped.
  base::Result<ForwardSeconds, kv::Shortage> forward(uint32_t tokens, bool logits,
                                                     model::Role role = model::Role::kAnswer);

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
