#pragma once
// The blocks that decoders are made of. All work on the batch's tokens, row by row: [tokens][...]
// floats.

#include <initializer_list>
#include <vector>

#include "model/attend/attend.h"
#include "model/blocks/linear.h"
#include "model/core/config.h"
#include "model/core/model.h"
#include "model/core/weights.h"
#include "model/core/workspace.h"

namespace kvick::model {

// One step's batch while it goes through the layers.
struct Pass {
  const Config& config;
  const Batch& batch;
  kv::Step& step;
  Workspace& workspace;
  uint32_t tokens;
  std::vector<TokenRun> runs;  // those tokens, by arithmetic
  float* hidden;          // [tokens][dim], the residual stream, without the last block's output
  const float* rotation;  // [tokens][dims/2 cosines, dims/2 sines], null without rotary embedding
  BatchAttention& attend;
};

struct Norm {
  std::vector<float> weight, bias;  // a bias makes it LayerNorm, none RMSNorm
};

struct SelfAttention {
  Norm norm;
  Linear q, k, v, out;
  std::vector<float> q_norm, k_norm;  // RMSNorm of each head before rotation (Qwen3), or empty
};

// down(silu(gate(x)) * up(x)), the block of the llama family.
struct GatedFfn {
  Norm norm;
  Linear gate, up, down;
};

// Checks the batch against the model: KVICK_CHECKs token ids, parents and lengths.
void check_batch(const Config& config, const Batch& batch);
// Positions of the batch's tokens in batch order: past + depth in its tree.
std::vector<uint32_t> positions(const Batch& batch);
// Cosines and sines per token, in the workspace.
const float* rotations(const Rope& rope, const Batch& batch, Workspace& workspace);
// Rows of the embedding, in the workspace: the start of the residual stream.
float* embed(const Config& config, const Embedding& embedding, const Batch& batch,
             Workspace& workspace);

// The blocks. Each begins with hidden += rest, of what the block before returned (null: nothing),
// and returns what is to be added after it: additions, norms and quantising are one pass over a
// token. A block's rest is read before its own output is written, so all may use one buffer.
//
// linear layers of norm(hidden += rest).
void project_normed(const Pass& pass, const float* rest, const Norm& norm,
                    std::initializer_list<Output> outputs);
// attention(norm(hidden)), writing this layer's keys and values into the step.
const float* attention(const Pass& pass, const float* rest, uint32_t layer,
                       const SelfAttention& weights);
const float* gated_ffn(const Pass& pass, const float* rest, const GatedFfn& weights);
// linear(x) as a block's output.
const float* project_back(const Pass& pass, const float* x, Workspace::TokenBody prepare,
                          const Linear& linear);
// logits of the tokens `wanted`: [wanted][vocab].
void logits_of(const Pass& pass, const float* rest, const Norm& norm, const Linear& output,
               std::span<const uint32_t> wanted, float* logits);

// Readers of the blocks, with GGUF's tensor names under `prefix` ("blk.3.").
base::Result<Norm> read_rms_norm(WeightReader& reader, const std::string& name, uint32_t size);
base::Result<Norm> read_layer_norm(WeightReader& reader, const std::string& name, uint32_t size);
base::Result<SelfAttention> read_attention(WeightReader& reader, const Config& config,
                                           const std::string& prefix, WeightReader::Bias qkv_bias,
                                           WeightReader::Bias out_bias);
base::Result<GatedFfn> read_gated_ffn(WeightReader& reader, const Config& config,
                                      const std::string& prefix);

}  // namespace kvick::model
