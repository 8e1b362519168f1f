#pragma once
// What stands before the first layer and behind the last.

#include "model/blocks/block.h"

namespace kvick::model {

// A row for each position, which is added to the embedding's (OPT, GPT-2).
struct LearnedPositions {
  Embedding table;
  uint32_t offset = 0;  // row p of the table belongs to position p - offset
};

struct Input {
  Embedding embedding;
  std::unique_ptr<LearnedPositions> positions;  // null: none
  std::vector<float> types;  // rows that are added by token type, of [dim]; empty: none
  Norm norm;                 // of the sum; empty: none

  // Rows of the embedding, in the workspace: the start of the residual stream. Of those tokens, at
  // those positions.
  float* run(const Config& config, const Batch& batch, TokenRange range,
             std::span<const uint32_t> positions, Workspace& workspace) const;

 private:
  const float* type_row(const Config& config, bool second) const;
};

struct Head {
  Norm norm;
  Linear output;
  Slice vocab;  // those of its rows that this rank has

  // What the output layer says of the tokens `wanted`, strictly ascending: [wanted][outputs]; with
  // Pass::ranks, on rank 0 alone.
  void run(const Pass& pass, Rest rest, std::span<const uint32_t> wanted, float* logits) const;
  // Fills the batch's states, if it wants any.
  // Before run(), which then takes them from there.
  void run_states(const Pass& pass, Rest rest) const;
  // These become logits.
  void finish(const Config& config, Workspace& workspace, uint32_t wanted, float* logits) const;

 private:
  void gather(const Pass& pass, const float* own, uint32_t tokens, float* logits) const;
};

// Checks the batch against the model: KVICK_CHECKs token ids, parents and lengths.
void check_batch(const Config& config, const Batch& batch);
// Positions of the batch's tokens in batch order.
std::vector<uint32_t> positions_of(const Batch& batch);
// Cosines and sines per rope and token, in the workspace.
std::vector<const float*> rotations(const Config& config, std::span<const uint32_t> positions,
                                    Workspace& workspace);

}  // namespace kvick::model
