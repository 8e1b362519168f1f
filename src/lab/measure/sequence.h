#pragma once
// One sequence in a store of its own, read step by step: for experiments that look at what single
// tokens cost and say.

#include <memory>
#include <span>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::lab {

class OneSequence {
 public:
  // Errors: those of make_store. The engine outlives it.
  static base::Result<OneSequence> open(engine::Engine& engine, const engine::KvOptions& options);

  // In one step. Errors: no room, rows lost in a slower tier.
  base::Status<> read(std::span<const engine::Token> tokens);
  // In steps of about `chunk` tokens, all as long as one another.
  base::Status<> read_in_steps(std::span<const engine::Token> tokens, size_t chunk);
  // Of the next token, behind the last one that was read.
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
