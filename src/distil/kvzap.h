#pragma once
// How much attention a row will have, predicted from its layer's input as it is written: for the
// policy kvzap ("KVzap: Fast, Adaptive, and Faithful KV Cache Pruning", arXiv 2601.07891, its
// linear form).
//
// What is predicted: the logarithm of the row's use for a KV head, which is the largest
// probability that a query at least `ahead` tokens later gives it, over the query heads of the
// group, times the length of what its value adds to the residual stream (KVzip+ there, which
// also divides by the length of that stream). The paper
// takes the largest probability as the model repeats its prompt; here the text's own later tokens
// are asked.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "distil/distil.h"

#include "io/file/model_file.h"

namespace kvick::distil {

struct KvzapOptions {
  uint32_t window = 2048;               // tokens of one sequence; the last one is held out
  uint32_t ahead = 128;                 // tokens that a query is behind a row at least
  uint32_t most = 0;                    // tokens of the text that count; 0: all
  uint64_t memory = uint64_t{1} << 30;  // bytes of sums; a text is read as often as they need
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens
};

// On what was held out, at a quarter of a layer's rows in all its KV heads.
struct ScoreQuality {
  double mse = 0;        // of the logarithms
  double explained = 0;  // share of their variance
  double recall = 0;     // share of the rows of most use that have the highest scores
  double mass = 0;       // of the use that these have, the share of the rows with highest scores
};

struct Scores {
  kv::Predictor predictor;  // rounded to the weights of its file
  std::vector<ScoreQuality> layers;
  uint64_t tokens = 0, held_out = 0;
};

// The same for the same text, options and model, whatever the number of threads. weights: the
// engine's model. Errors: as of distil(), and a window that is no longer than 4 * ahead, a model
// whose output projections are not where they should be.
base::Result<Scores> train_scores(engine::Engine& engine, const io::ModelFile& weights,
                                  std::span<const engine::Token> text, const KvzapOptions& options);

// W^T W of each query head's part of a layer's output projection W, whose rows are `rows`, a
// multiple of heads * v_dim floats: [heads][v_dim][v_dim].
std::vector<float> output_squares(std::span<const float> rows, const model::LayerConfig& heads,
                                  const kernels::Table& kernels);

// The use of each row of a layer, [tokens][kv_heads]; 0 of rows that no query so far ahead sees.
// The length is the mean of the group's query heads, by what output_squares says.
std::vector<float> uses(const LayerActivations& layer, const model::LayerConfig& heads,
                        std::span<const float> squares, uint32_t ahead,
                        const kernels::Table& kernels, base::ThreadPool& pool);

// As it is written; text: the name of what it was trained on.
engine::PredictorFile file_of(const Scores& made, const engine::ModelIdentity& model,
                              const std::string& text);

}  // namespace kvick::distil
