#pragma once
// Trains all heads of one layer. Inputs are scaled to a mean square of one first, so that one
// learning rate suits all of them; the matrices of the result take unscaled inputs.

#include <cstdint>
#include <span>
#include <vector>

#include "distil/capture.h"
#include "distil/head_fit.h"

#include "base/thread_pool.h"
#include "kv/select/predictor.h"

namespace kvick::distil {

struct Steps {
  uint32_t count = 0, queries = 0;  // steps per sequence, query tokens per step
  Loss loss = Loss::kCentred;
  float rate = 0;
  uint64_t seed = 0;
};

// Returns the factor for one row of W_K that brings all but one in a thousand of a sequence's
// products row . input within +-127. inputs: [tokens][row.size()], `stride` floats from one token
// to the next.
float int8_unit(const float* inputs, size_t stride, uint32_t tokens, std::span<const float> row,
                const kernels::Table& kernels);

class LayerFit {
 public:
  // start: a predictor without its layers. It must outlive this object.
  explicit LayerFit(const kv::Predictor& start) : start_(start), shape_(start.shape) {}

  // Trains on one sequence; the first one also sets the scales of the inputs. The result does not
  // depend on the number of threads.
  void train(const LayerActivations& layer, const Steps& steps, base::ThreadPool& pool,
             const kernels::Table& kernels);
  // Returns W_Q and W_K, with low-rank keys scaled so that all but one in a thousand values of this
  // sequence fit into int8 (+-127). Call it after train().
  kv::PredictorLayer result(const LayerActivations& layer, const kernels::Table& kernels) const;

 private:
  // What W_Q (a) and W_K (b) read of each token, scaled. If b is empty, both read a.
  struct Inputs {
    std::vector<float> a, b;
    std::vector<float> turns;  // HeadWindow::turns; empty: no rotation
    size_t a_stride = 0, b_stride = 0;
    const float* of_keys() const { return b.empty() ? a.data() : b.data(); }
  };
  Inputs inputs_of(const LayerActivations& layer) const;
  void scale(Inputs& inputs) const;
  void start(uint64_t seed, float scale);
  // Adds to W_Q and W_K of a head what selects the `rank` elements with the largest products
  // q[d] * k[d]. scale: of the scores.
  void start_with_largest(uint32_t head, float scale, std::vector<float>& q,
                          std::vector<float>& k) const;
  void train_head(uint32_t head, const LayerActivations& layer, const Inputs& inputs,
                  const Steps& steps, const kernels::Table& kernels);
  // Returns the factor of each value of a head's low-rank keys: int8_unit(). The two values of a
  // rotated pair share one factor.
  std::vector<float> units(uint32_t head, const Inputs& inputs, uint32_t tokens,
                           const kernels::Table& kernels) const;
  // Offset of a head's inputs in a token's row of inputs, and in a_size_ or b_size_.
  size_t a_first(uint32_t q_head) const {
    return shape_.from_input() ? 0 : size_t{q_head} * shape_.head_dim;
  }
  size_t b_first(uint32_t head) const {
    return shape_.from_input() ? 0 : size_t{head} * shape_.head_dim;
  }

  const kv::Predictor& start_;
  const kv::PredictorShape& shape_;
  std::vector<float> a_size_, b_size_;  // root mean squares of the inputs
  std::vector<HeadFit> heads_;          // per KV head
};

}  // namespace kvick::distil
