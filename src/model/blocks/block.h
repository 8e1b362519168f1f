#pragma once
// The parts of layers. A layer is a list of blocks. Each block reads the residual stream and
// returns what to add to it. All blocks work on the batch's tokens, row by row: [tokens][...]
// floats.

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/attend/attend.h"
#include "model/blocks/linear.h"
#include "model/blocks/norm.h"
#include "model/core/config.h"
#include "model/core/model.h"
#include "model/core/share.h"
#include "model/core/weights.h"
#include "model/core/workspace.h"
#include "model/ranks/ranks.h"

namespace kvick::model {

class ExpertMemory;

// A step's batch, or a piece of it, on its way through the layers.
struct Pass {
  const Config& config;
  const Batch& batch;
  kv::Step& step;
  Workspace& workspace;
  uint32_t first = 0;  // the piece's first token in the batch
  uint32_t tokens;
  std::vector<TokenRun> runs;       // the tokens, grouped by arithmetic
  std::vector<uint32_t> positions;  // [tokens]: past + depth in its slot's tree
  float* hidden;  // [tokens][dim], the residual stream before the last block's output
  std::vector<const float*> rotations;  // per rope: [tokens][dims/2 cosines, dims/2 sines]
  float* layer_inputs;  // [tokens][all layers][Config::layer_inputs]; null: the model has none
  float* streams;       // [Config::streams][tokens][dim]; null: the model has one stream (altup.h)
  BatchAttention& attend;
  Ranks* ranks = nullptr;  // the ranks that share every layer; null: this process has all of it
};

// The previous block's output y, [tokens][dim], which the next block adds to the residual stream. y
// goes through `norm` first. Then the stream is multiplied by `scale`. y null: there is no output
// to add.
struct Rest {
  const float* y = nullptr;
  const Norm* norm = nullptr;
  // Norm of the sum; its result becomes the residual stream (Vaswani et al. 2017). Null: no norm.
  const Norm* sum_norm = nullptr;
  // Norm of (that result + the stream before the sum); its result becomes the stream. Null: none.
  const Norm* second_norm = nullptr;
  float scale = 1;
};

// Returns the Rest of a block with the output y and these norms.
inline Rest rest_of(const float* y, const BlockNorms& norms) {
  return {y, norms.after.empty() ? nullptr : &norms.after, norms.sum.empty() ? nullptr : &norms.sum,
          norms.second_sum.empty() ? nullptr : &norms.second_sum};
}

class Block {
 public:
  virtual ~Block() = default;
  // Adds `rest` to the residual stream, computes the block, and returns its output as the next
  // Rest. Thereby addition, norm and quantising are one pass over a token. A block reads `rest`
  // before it writes its own output, so all blocks may share one output buffer.
  virtual Rest run(const Pass& pass, Rest rest) const = 0;
};
using Layer = std::vector<std::unique_ptr<Block>>;

// Reads the tensors of one layer, "blk.<layer>.<name>", or this rank's share of them.
struct BlockReader {
  WeightReader& weights;
  const Config& config;  // of this rank's share
  const Share& share;
  uint32_t layer;  // index among the layers of the share
  NormKind norms;
  ExpertMemory* expert_memory =
      nullptr;  // the experts are paged in by it; null: all stay in memory
  // The layer number in tensor names, where it differs (read_falcon_layer).
  std::optional<uint32_t> named = {};

  const LayerConfig& numbers() const { return config.layers[layer]; }
  // This rank's slices: of vectors with `floats` elements per KV head; of the width of the
  // feed-forward block or of each expert; of the shared expert's width.
  Slice of_heads(uint32_t floats) const { return share.layers[layer].kv_heads.times(floats); }
  Slice of_width() const { return share.layers[layer].ffn; }
  Slice of_shared_width() const { return share.layers[layer].shared_ffn; }
  std::string name(std::string_view tensor) const;
  bool has(std::string_view tensor) const { return weights.has(name(tensor)); }
  base::Result<Linear> linear(std::string_view tensor, Slice outputs, Slice inputs,
                              WeightReader::Bias bias) const;
  // Reads a linear layer whose outputs are summed over the ranks.
  base::Result<Linear> linear_back(std::string_view tensor, Slice inputs,
                                   WeightReader::Bias bias) const;
  // Reads a norm; an empty name gives an empty norm.
  base::Result<Norm> norm(std::string_view tensor) const;
  base::Result<BlockNorms> norms_of(const NormNames& names) const;
};

// hidden += rest for one token; y: scratch of [dim] floats.
void add_rest(const Pass& pass, Rest rest, uint32_t token, float* y);
// y = norm(hidden += rest) of one token.
void norm_token(const Pass& pass, Rest rest, const Norm& norm, uint32_t token, float* y);
// Computes linear layers of norm(hidden += rest).
void project_normed(const Pass& pass, Rest rest, const Norm& norm,
                    std::initializer_list<Output> outputs);
// Writes the keys and values of the pass's tokens to the step.
void write_rows(const Pass& pass, uint32_t layer, const float* k, const float* v);
// Returns the memory for a block's output, or for this rank's part of it: [tokens][dim].
float* room_for_output(const Pass& pass);
// Returns the block's output: the sum of the ranks' parts, or `own` on one rank.
const float* sum_of_ranks(const Pass& pass, const float* own);
// Computes the block output linear(x), summed over ranks; calls prepare(token) before it reads that
// row.
const float* project_back(const Pass& pass, const float* x, Workspace::TokenBody prepare,
                          const Linear& linear);

}  // namespace kvick::model
