#pragma once
// The parts before the first layer and after the last.

#include "model/blocks/block.h"

namespace kvick::model {

// Learned positions: one row per position is added to the token's embedding (OPT, GPT-2).
struct LearnedPositions {
  Embedding table;
  uint32_t offset = 0;  // row p of the table belongs to position p - offset
};

struct Input {
  Embedding embedding;
  std::unique_ptr<LearnedPositions> positions;  // null: none
  std::vector<float>
      types;  // [types][dim], the row of a token's type is added to its embedding; empty: none
  Norm norm;  // applied to the sum; empty: none

  // Embeds the tokens of `range`, whose positions are `positions`, into the workspace. Returns the
  // start of the residual stream, [range.tokens][dim].
  float* run(const Config& config, const Batch& batch, TokenRange range,
             std::span<const uint32_t> positions, Workspace& workspace) const;

 private:
  const float* type_row(const Config& config, bool second) const;
};

struct Head {
  Norm norm;
  Linear output;
  Slice vocab;  // this rank's rows of the output matrix

  // Writes raw logits of the tokens `wanted`, which are strictly ascending: [wanted][outputs]. With
  // Pass::ranks only rank 0 receives them.
  void run(const Pass& pass, Rest rest, std::span<const uint32_t> wanted, float* logits) const;
  // Fills Batch::states, if the batch has any. Call it before run(), which then reads those states.
  void run_states(const Pass& pass, Rest rest) const;
  // Applies logit_scale and logit_softcap to the output of run().
  void finish(const Config& config, Workspace& workspace, uint32_t wanted, float* logits) const;

 private:
  void gather(const Pass& pass, const float* own, uint32_t tokens, float* logits) const;
};

// Checks token ids, parents and lengths of a batch against the model, with KVICK_CHECK.
void check_batch(const Config& config, const Batch& batch);
// Returns the positions of the batch's tokens, in batch order.
std::vector<uint32_t> positions_of(const Batch& batch);
// Computes cosines and sines for each rope and token, in the workspace.
std::vector<const float*> rotations(const Config& config, std::span<const uint32_t> positions,
                                    Workspace& workspace);

}  // namespace kvick::model
