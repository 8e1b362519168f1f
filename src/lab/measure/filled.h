#pragma once
// Sequences of equal length whose cache is filled without computing or by reading a text, then
// decoded: for experiments on the cost of single tokens late in a context.

#include <memory>
#include <span>
#include <vector>

#include "engine/core/engine.h"
#include "plan/forecast/attention_block.h"

namespace kvick::lab {

class Filled {
 public:
  // batch: number of sequences. text: what they read, each from its own starting point, wrapping
  // around at the end; empty: rows are random. Engine and text outlive this object. Functions below
  // return a Shortage without room, or if a slower tier lost rows.
  Filled(engine::Engine& engine, std::unique_ptr<kv::Store> store, uint32_t batch,
         std::span<const engine::Token> text = {});

  // Adds `tokens` tokens to each sequence, without computing if there is no text.
  base::Status<kv::Shortage> fill(uint32_t tokens);
  // Runs only the attention of one random token per sequence, even if a text was read. Returns the
  // seconds of all layers' attention.
  base::Result<double, kv::Shortage> attend();
  // Runs one token per sequence through the whole model. Returns the seconds of all layers'
  // attention (attention_clock.h). The whole step takes longer than step(), because being observed
  // keeps the linear layers from sharing work.
  base::Result<double, kv::Shortage> attend_in_step();
  // Runs one token per sequence through the whole model. Returns seconds.
  base::Result<double, kv::Shortage> step();
  kv::Usage usage() const { return store_->usage(); }

 private:
  // Sets slots_ and last_ to a step of the next `tokens` tokens of each sequence.
  void prepare(uint32_t tokens);
  // Reads the next `tokens` of each sequence through the whole model. Returns seconds.
  base::Result<double, kv::Shortage> read(uint32_t tokens);

  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  plan::AttentionBlock block_;
  std::vector<kv::SeqId> seqs_;
  std::span<const engine::Token> text_;
  // Of one step: the tokens of all sequences, the sequences, and the last token of each.
  std::vector<model::Token> tokens_;
  std::vector<model::Slot> slots_;
  std::vector<uint32_t> last_;
};

}  // namespace kvick::lab
