#pragma once
// MAPLE's predictor: low-rank queries and keys whose products rank the rows of a cache before any
// row is read (equation 1); the paper's form and others.
//
// In the paper's form the keys of all KV heads are one row K~ = x P W_K of k = kv_heads * rank
// values, `rank` for each head. The queries are x P W_Q, `rank` values for each query head. With as
// many KV heads as query heads both W are k x k. With fewer KV heads W_Q has `rank` columns for
// each query head of a group, which costs no memory in the cache because queries are not stored.

#include <cstdint>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kv {

// What a predictor computes, and from which input.
enum class PredictorForm : uint8_t {
  kRandom,   // from the layer's input through a fixed sparse random projection (the paper's form)
  kTrained,  // from the layer's input through fully trained matrices
  kHeads,    // from the layer's queries and keys, after rotary position
  // Like kHeads, with the principal components of keys as matrices; for the policy loki.
  kComponents,
  // No low-rank queries and keys, but one score per row and KV head, from the layer's input: the
  // attention that the row is expected to get; for the policy kvzap. Only W_K, whose last column is
  // a constant term.
  kScores,
  // No matrices: W_K is one number in [0, 1] per KV head, how much the head's output changes
  // without distant rows; for the policy duo.
  kRetrieval,
  // No matrices: W_K is one number in [0, 1] per KV head and token of one document, the largest
  // share of attention that the token's row gets while the model repeats the document; for the
  // policy kvzip.
  kDocument,
};

struct PredictorShape {
  uint32_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  uint32_t dim = 0;   // of the layer's input
  uint32_t rank = 0;  // values of a low-rank key, per KV head
  PredictorForm form = PredictorForm::kRandom;
  uint32_t seed = 0;    // of the random projection
  uint32_t tokens = 0;  // of the document of kDocument

  uint32_t group() const { return heads / kv_heads; }
  bool from_input() const {
    return form == PredictorForm::kRandom || form == PredictorForm::kTrained;
  }
  bool has_queries() const {
    return form != PredictorForm::kScores && form != PredictorForm::kRetrieval &&
           form != PredictorForm::kDocument;
  }
  uint32_t projected() const { return kv_heads * rank; }  // k, columns of the random projection
  // Returns the number of inputs of a row of W_Q and W_K.
  uint32_t inputs() const {
    if (form == PredictorForm::kRandom) return projected();
    if (form == PredictorForm::kScores) return dim + 1;
    if (form == PredictorForm::kRetrieval) return 1;
    if (form == PredictorForm::kDocument) return tokens;
    return form == PredictorForm::kTrained ? dim : head_dim;
  }
  bool operator==(const PredictorShape&) const = default;
};

// P of equation 1: dim x k, entries sqrt(3/k) * {-1, 0, +1} with probabilities 1/6, 2/3, 1/6. A
// seed gives the same matrix on every machine.
class SparseProjection {
 public:
  SparseProjection() = default;
  SparseProjection(uint32_t dim, uint32_t k, uint32_t seed);
  // Computes out = x P, from [dim] to [k].
  void apply(const float* x, float* out) const;
  // Returns entry (row, column) of P.
  float at(uint32_t row, uint32_t column) const;

 private:
  float scale_ = 0;
  // rows_: for each column the rows with +1, then the rows with -1. begin_: where each of these
  // lists begins, and the end of the last.
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
  // Rotary position inside the low-rank space: before low-rank queries and keys are compared,
  // values i and i + rank / 2 of each head are rotated by position * frequency[i]. Empty: no
  // rotation. Only if shape.from_input() and rank is even.
  std::vector<float> frequency;  // [rank / 2]
  // Of kDocument: the document's tokens, as they stand at the beginning of a prompt: [tokens].
  std::vector<int32_t> document;

  // Computes the cosines and sines of a position, as kernels::Table::rope takes them: [rank].
  void turns(uint32_t position, float* cos_sin) const;
  // Rotates the low-rank queries or keys of one token, [heads][rank], in place. Without frequencies
  // turns() and turn() do nothing.
  void turn(const float* cos_sin, uint32_t heads, const kernels::Table& kernels, float* low) const;
  // Returns the input of W_Q and W_K for one token's layer input x [dim]: x itself, or x P,
  // computed into `memory` [k]. Only if shape.from_input().
  const float* projected(const float* x, float* memory) const;
  // Computes the low-rank keys of one token: out [kv_heads][rank]. from: the result of projected()
  // or, with kHeads, the token's keys [kv_heads][head_dim].
  void keys(uint32_t layer, const float* from, const kernels::Table& kernels, float* out) const;
  // Computes the key of one KV head: out [rank]. from: the result of projected() or the head's key
  // [head_dim].
  void key(uint32_t layer, uint32_t head, const float* from, const kernels::Table& kernels,
           float* out) const;
  // With kScores: computes the scores of one token's rows, out [kv_heads], from the layer's input.
  void scores(uint32_t layer, const float* x, const kernels::Table& kernels, float* out) const;
  // Computes the low-rank query of one query head: out [rank]. from: the result of projected() or,
  // with kHeads, the head's query [head_dim].
  void query(uint32_t layer, uint32_t head, const float* from, const kernels::Table& kernels,
             float* out) const;
};

}  // namespace kvick::kv
