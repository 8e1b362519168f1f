#pragma once
// The problem that distillation solves for one KV head of one layer: small matrices A_g and B so
// that (A_g a_i) . (B b_j) predicts the score scale * q_gi . k_j of every query head g of the
// group, token i and earlier token j (MAPLE, equation 2). It is bilinear, so plain products and
// Adam solve it.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::distil {

// The error of a row of scores. Softmax and top-k ignore a constant that is added to a row, so
// kCentred subtracts the row's mean error before squaring; kRaw is equation 2 as printed.
// kDivergence is the KL divergence of the rows' softmaxes.
enum class Loss : uint8_t { kRaw, kCentred, kDivergence };

// One sequence, as one KV head sees it. All pointers are borrowed.
struct HeadWindow {
  uint32_t tokens = 0, group = 0, head_dim = 0, inputs = 0;
  const float* q = nullptr;        // of token i, head g: q + i * q_stride + g * head_dim
  size_t q_stride = 0;             // floats
  const float* columns = nullptr;  // the keys, [head_dim][tokens]
  // What A_g and B read: a of token i and head g at a + i * a_stride + g * a_group, `inputs`
  // floats; b of token j at b + j * b_stride.
  const float* a = nullptr;
  size_t a_stride = 0, a_group = 0;
  const float* b = nullptr;
  size_t b_stride = 0;
  // Cosines and sines of the rotation of A_g a_i and B b_i before they are multiplied,
  // [tokens][rank] as kernels::Table::rope takes them; null: no rotation.
  const float* turns = nullptr;
  float scale = 0;  // of the scores; 0: 1 / sqrt(head_dim)
};

// Returns the scale; 0 stands for 1 / sqrt(head_dim).
float score_scale(float scale, uint32_t head_dim);

// Transposes [tokens][width], rows `stride` floats apart, to [width][tokens].
std::vector<float> columns_of(const float* rows, size_t stride, uint32_t width, uint32_t tokens);

// Sets out to the true scores of query (i, g): scale * q . k_j for j <= i.
void true_scores(const HeadWindow& window, uint32_t i, uint32_t g, const kernels::Table& kernels,
                 float* out);

// The state of the Adam optimiser for n parameters.
class Adam {
 public:
  explicit Adam(size_t n) : mean_(n), square_(n) {}
  void step(std::span<float> x, std::span<const float> gradient, float rate);

 private:
  std::vector<float> mean_, square_;
  uint32_t steps_ = 0;
};

class HeadFit {
 public:
  // Initial weights, q: [group][rank][inputs], k: [rank][inputs].
  HeadFit(uint32_t rank, std::vector<float> q, std::vector<float> k)
      : rank_(rank), q_(std::move(q)), k_(std::move(k)), adam_q_(q_.size()), adam_k_(k_.size()) {}

  // One step of Adam over the scores of these queries; returns their mean loss.
  double step(const HeadWindow& window, std::span<const uint32_t> queries, Loss loss, float rate,
              const kernels::Table& kernels);

  uint32_t rank() const { return rank_; }
  const std::vector<float>& q() const { return q_; }
  const std::vector<float>& k() const { return k_; }

 private:
  void project_keys(const HeadWindow& window, const kernels::Table& kernels);
  double add_query(const HeadWindow& window, uint32_t i, uint32_t g, Loss loss,
                   const kernels::Table& kernels);
  void gather_keys(const HeadWindow& window, const kernels::Table& kernels);

  uint32_t rank_;
  std::vector<float> q_, k_;
  Adam adam_q_, adam_k_;
  // Scratch of a step: predicted keys and their gradient, [rank][tokens]; gradients of q_ and k_.
  std::vector<float> keys_, keys_gradient_, q_gradient_, k_gradient_;
  std::vector<float> scores_, target_;  // of one query, [tokens]
};

}  // namespace kvick::distil
