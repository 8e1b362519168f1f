#pragma once
// Sequences of equal length whose cache is filled, without computing or by reading a text, then
// decoded: for experiments that look at what single tokens cost far behind in a context.

#include <memory>
#include <span>
#include <vector>

#include "engine/core/engine.h"
#include "plan/forecast/attention_block.h"

namespace kvick::lab {

class Filled {
 public:
  // batch: sequences. text: what they read, each from a place of its own and from the beginning
  // again behind the end; empty: rows are random. Engine and text outlive it. Shortages below: no
  // room, rows lost in a slower tier.
  Filled(engine::Engine& engine, std::unique_ptr<kv::Store> store, uint32_t batch,
         std::span<const engine::Token> text = {});

  // Adds `tokens` tokens to each sequence without computing.
  base::Status<kv::Shortage> fill(uint32_t tokens);
  // One random token per sequence, only its attention, whatever was read before. Returns the
  // seconds of all layers' attention.
  base::Result<double, kv::Shortage> attend();
  // One token per sequence through the whole model. Returns seconds.
  base::Result<double, kv::Shortage> step();
  kv::Usage usage() const { return store_->usage(); }

 private:
  // Reads the next `tokens` of each sequence through the whole model. Returns seconds.
  base::Result<double, kv::Shortage> read(uint32_t tokens);

  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  plan::AttentionBlock block_;
  std::vector<kv::SeqId> seqs_;
  std::span<const engine::Token> text_;
  std::vector<model::Token> tokens_;  // of one step
};

}  // namespace kvick::lab
