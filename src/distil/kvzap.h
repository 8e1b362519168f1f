#pragma once
// Trains the predictor of the policy kvzap: it predicts how much attention a row will get, from its
// layer's input when the row is written ("KVzap: Fast, Adaptive, and Faithful KV Cache Pruning",
// arXiv 2601.07891, its linear form).
//
// The target is the logarithm of the row's use for a KV head. The use is the largest probability
// that a query at least `ahead` tokens later gives the row, over the query heads of the group,
// times the length of what its value adds to the residual stream (KVzip+ there, which also divides
// by the length of that stream). The paper takes the largest probability while the model repeats
// its prompt; here the queries are those of the text's own later tokens.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "distil/distil.h"

#include "io/file/model_file.h"

namespace kvick::distil {

struct KvzapOptions {
  uint32_t window = 2048;               // tokens of one sequence; the last one is held out
  uint32_t ahead = 128;                 // least distance in tokens from a row to a counted query
  uint32_t most = 0;                    // most tokens of the text to use; 0: all
  uint64_t memory = uint64_t{1} << 30;  // bytes for sums; if too few, the text is read repeatedly
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens
};

// Measured on held-out tokens, by choosing a quarter of a layer's rows over all its KV heads.
struct ScoreQuality {
  double mse = 0;        // mean squared error of the logarithms
  double explained = 0;  // share of their variance
  double recall = 0;     // share of the most-used rows that are among the top scores
  double mass = 0;       // use of the top-scored rows over that of the most-used rows
};

struct Scores {
  kv::Predictor predictor;  // rounded to the weights of its file
  std::vector<ScoreQuality> layers;
  uint64_t tokens = 0, held_out = 0;
};

// Deterministic: the result does not depend on the number of threads. weights: the engine's model
// file. Errors: those of distil(), a window of less than 20 or 4 * (ahead + 1) tokens, a model
// without output projections blk.N.attn_output.weight of the expected shape.
base::Result<Scores> train_scores(engine::Engine& engine, const io::ModelFile& weights,
                                  std::span<const engine::Token> text, const KvzapOptions& options);

// Returns W^T W of each query head's columns of a layer's output projection W,
// [heads][v_dim][v_dim]. rows: the rows of W, heads * v_dim floats each.
std::vector<float> output_squares(std::span<const float> rows, const model::LayerConfig& heads,
                                  const kernels::Table& kernels);

// Returns the use of each row of a layer, [tokens][kv_heads]; 0 if no query is at least `ahead`
// tokens later. A value's length is the mean over the group's query heads. squares: from
// output_squares().
std::vector<float> uses(const LayerActivations& layer, const model::LayerConfig& heads,
                        std::span<const float> squares, uint32_t ahead,
                        const kernels::Table& kernels, base::ThreadPool& pool);

// The predictor file to write. text: the name of the training text.
engine::PredictorFile file_of(const Scores& made, const engine::ModelIdentity& model,
                              const std::string& text);

}  // namespace kvick::distil
