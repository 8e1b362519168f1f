#pragma once
// One sequence in its own store, read step by step: for experiments on the cost and the logits of
// single tokens.

#include <memory>
#include <span>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::lab {

class OneSequence {
 public:
  // Errors: those of make_store. The engine outlives the sequence.
  static base::Result<OneSequence> open(engine::Engine& engine, const engine::KvOptions& options);

  // Reads tokens in one step. Errors: no room; a slower tier lost rows.
  base::Status<> read(std::span<const engine::Token> tokens);
  // Reads tokens in steps of equal length, about `chunk` tokens each.
  base::Status<> read_in_steps(std::span<const engine::Token> tokens, size_t chunk);
  // Returns the logits after the last token read.
  std::span<const float> logits() const { return executor_.logits(); }
  uint32_t length() const { return store_->length(seq_); }
  kv::Usage usage() const { return store_->usage(); }

 private:
  OneSequence(engine::Engine& engine, std::unique_ptr<kv::Store> store);

  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  kv::SeqId seq_;
};

}  // namespace kvick::lab
