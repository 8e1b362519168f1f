#pragma once
// Sequences of equal length whose cache is filled without computing, then decoded: for experiments
// that look at what single tokens cost far behind in a context.

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "plan/attention_block.h"

namespace kvick::lab {

class Filled {
 public:
  // batch: sequences. The engine outlives it. Shortages below: no room, rows lost in a slower tier.
  Filled(engine::Engine& engine, std::unique_ptr<kv::Store> store, uint32_t batch);

  // So many tokens more for each sequence, whose keys and values are random.
  base::Status<kv::Shortage> fill(uint32_t tokens);
  // A token of each sequence, alone with its attention. Seconds of all layers' attention.
  base::Result<double, kv::Shortage> attend();
  // A token of each sequence, through the whole model. Seconds.
  base::Result<double, kv::Shortage> step();
  kv::Usage usage() const { return store_->usage(); }

 private:
  engine::Engine& engine_;
  std::unique_ptr<kv::Store> store_;
  model::Workspace workspace_;
  plan::AttentionBlock block_;
  std::vector<kv::SeqId> seqs_;
  std::vector<model::Token> tokens_;
  std::vector<uint32_t> wanted_;
  std::vector<float> logits_;
};

}  // namespace kvick::lab
