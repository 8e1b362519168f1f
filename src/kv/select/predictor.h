#pragma once
// MAPLE's predictor: low-rank queries and keys whose products rank the rows of a cache before any
// of them is read (equation 1), in its own form and in two beyond it.
//
// Of its own form the keys of all KV heads are one row K~ = x P W_K of k = kv_heads * rank values,
// `rank` of them for each head, and every query head has a row of its own, of x P W_Q: with as many
// KV heads as query heads both W are k x k; with fewer, W_Q has as many columns for each query head
// of a group, for queries are not stored.

#include <cstdint>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kv {

// What low-rank queries and keys are made from.
enum class PredictorForm : uint8_t {
  kRandom,   // the layer's input through a fixed sparse random projection (MAPLE's own)
  kTrained,  // the layer's input through matrices that are trained whole
  kHeads,    // queries and keys of the layer itself, after rotary position
  // The same, by the principal components of keys, for the policy loki.
  kComponents,
  // No queries and keys but one number for each row and KV head, from the layer's input: how much
  // the row will be attended to, for the policy kvzap. W_K alone, whose last column is a constant.
  kScores,
};

struct PredictorShape {
  uint32_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  uint32_t dim = 0;   // of the layer's input
  uint32_t rank = 0;  // values of a low-rank key, per KV head
  PredictorForm form = PredictorForm::kRandom;
  uint32_t seed = 0;  // of the random projection

  uint32_t group() const { return heads / kv_heads; }
  bool from_input() const {
    return form == PredictorForm::kRandom || form == PredictorForm::kTrained;
  }
  bool has_queries() const { return form != PredictorForm::kScores; }
  uint32_t projected() const { return kv_heads * rank; }  // k, columns of the random projection
  // What a row of W_Q and W_K reads.
  uint32_t inputs() const {
    if (form == PredictorForm::kRandom) return projected();
    if (form == PredictorForm::kScores) return dim + 1;
    return form == PredictorForm::kTrained ? dim : head_dim;
  }
  bool operator==(const PredictorShape&) const = default;
};

// P of equation 1: dim x k, entries sqrt(3/k) * {-1, 0, +1} with probabilities 1/6, 2/3, 1/6. It is
// made from its seed, the same on every machine.
class SparseProjection {
 public:
  SparseProjection() = default;
  SparseProjection(uint32_t dim, uint32_t k, uint32_t seed);
  // out = x P: [dim] to [k].
  void apply(const float* x, float* out) const;
  // Entry (row, column) of P.
  float at(uint32_t row, uint32_t column) const;

 private:
  float scale_ = 0;
  // Of each column the rows with +1, then those with -1; where they begin, and behind the last.
  std::vector<uint32_t> rows_, begin_;
};

struct PredictorLayer {
  std::vector<float> q;  // W_Q: [heads][rank][inputs]
  std::vector<float> k;  // W_K: [kv_heads][rank][inputs]
};

struct Predictor {
  PredictorShape shape;
  SparseProjection projection;  // of PredictorForm::kRandom
  std::vector<PredictorLayer> layers;
  // Rotary position inside the low-rank space: low-rank queries and keys turn by their token's
  // position before they are compared, values i and i + rank / 2 of each head by position *
  // frequency[i]. Empty: they know no positions. Only if shape.from_input() and rank is even.
  std::vector<float> frequency;  // [rank / 2]

  // Cosines and sines of a position, as kernels::Table::rope takes them: [rank].
  void turns(uint32_t position, float* cos_sin) const;
  // Turns the low-rank queries or keys of one token by that, [heads][rank], in place. Both do
  // nothing without frequencies.
  void turn(const float* cos_sin, uint32_t heads, const kernels::Table& kernels, float* low) const;
  // What W_Q and W_K read of one token's layer input x [dim]: x itself or x P, which is put into
  // `memory` [k]. Only if shape.from_input().
  const float* projected(const float* x, float* memory) const;
  // The low-rank keys of one token: out [kv_heads][rank]. from: the above or, of the form kHeads,
  // the token's keys [kv_heads][head_dim].
  void keys(uint32_t layer, const float* from, const kernels::Table& kernels, float* out) const;
  // Of one KV head alone: out [rank], from: the above or its key [head_dim].
  void key(uint32_t layer, uint32_t head, const float* from, const kernels::Table& kernels,
           float* out) const;
  // Of the form kScores: the scores of one token's rows, out [kv_heads], from the layer's input.
  void scores(uint32_t layer, const float* x, const kernels::Table& kernels, float* out) const;
  // The low-rank query of one query head: out [rank]. from: the above or, of the form kHeads, the
  // head's query [head_dim].
  void query(uint32_t layer, uint32_t head, const float* from, const kernels::Table& kernels,
             float* out) const;
};

}  // namespace kvick::kv
