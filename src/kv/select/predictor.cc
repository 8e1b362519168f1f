#include "kv/select/predictor.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace kvick::kv {

SparseProjection::SparseProjection(uint32_t dim, uint32_t k, uint32_t seed)
    : scale_(std::sqrt(3.0F / static_cast<float>(k))) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> minus;
  for (uint32_t column = 0; column < k; ++column) {
    begin_.push_back(static_cast<uint32_t>(rows_.size()));
    minus.clear();
    for (uint32_t row = 0; row < dim; ++row) {
      // The remainders of a 64-bit number by 6 are equally likely, up to about 1 in 10^18.
      const uint64_t face = random() % 6;
      if (face == 0) rows_.push_back(row);
      if (face == 1) minus.push_back(row);
    }
    begin_.push_back(static_cast<uint32_t>(rows_.size()));
    rows_.insert(rows_.end(), minus.begin(), minus.end());
  }
  begin_.push_back(static_cast<uint32_t>(rows_.size()));
}

void SparseProjection::apply(const float* x, float* out) const {
  for (size_t column = 0; 2 * column + 1 < begin_.size(); ++column) {
    float sum = 0;
    for (uint32_t i = begin_[2 * column]; i < begin_[2 * column + 1]; ++i) sum += x[rows_[i]];
    for (uint32_t i = begin_[2 * column + 1]; i < begin_[2 * column + 2]; ++i) sum -= x[rows_[i]];
    out[column] = sum * scale_;
  }
}

float SparseProjection::at(uint32_t row, uint32_t column) const {
  const auto has = [&](size_t part) {
    const auto* rows = rows_.data();
    return std::binary_search(rows + begin_[part], rows + begin_[part + 1], row);
  };
  if (has(size_t{2} * column)) return scale_;
  return has(size_t{2} * column + 1) ? -scale_ : 0;
}

void Predictor::turns(uint32_t position, float* cos_sin) const {
  for (size_t i = 0; i < frequency.size(); ++i) {
    const double angle = double{frequency[i]} * position;
    cos_sin[i] = static_cast<float>(std::cos(angle));
    cos_sin[frequency.size() + i] = static_cast<float>(std::sin(angle));
  }
}

void Predictor::turn(const float* cos_sin, uint32_t heads, const kernels::Table& kernels,
                     float* low) const {
  if (frequency.empty()) return;
  for (uint32_t head = 0; head < heads; ++head)
    kernels.rope(low + size_t{head} * shape.rank, cos_sin, shape.rank, false);
}

const float* Predictor::projected(const float* x, float* memory) const {
  if (shape.form == PredictorForm::kTrained) return x;
  projection.apply(x, memory);
  return memory;
}

void Predictor::keys(uint32_t layer, const float* from, const kernels::Table& kernels,
                     float* out) const {
  for (uint32_t head = 0; head < shape.kv_heads; ++head) {
    key(layer, head, from, kernels, out + size_t{head} * shape.rank);
    if (!shape.from_input()) from += shape.head_dim;
  }
}

void Predictor::key(uint32_t layer, uint32_t head, const float* from, const kernels::Table& kernels,
                    float* out) const {
  const uint32_t inputs = shape.inputs();
  const float* row = layers[layer].k.data() + size_t{head} * shape.rank * inputs;
  for (uint32_t r = 0; r < shape.rank; ++r, row += inputs) out[r] = kernels.dot(from, row, inputs);
}

void Predictor::scores(uint32_t layer, const float* x, const kernels::Table& kernels,
                       float* out) const {
  const uint32_t dim = shape.dim;
  for (uint32_t head = 0; head < shape.kv_heads; ++head) {
    const float* row = layers[layer].k.data() + size_t{head} * shape.inputs();
    out[head] = kernels.dot(x, row, dim) + row[dim];
  }
}

void Predictor::query(uint32_t layer, uint32_t head, const float* from,
                      const kernels::Table& kernels, float* out) const {
  const uint32_t inputs = shape.inputs();
  const float* row = layers[layer].q.data() + size_t{head} * shape.rank * inputs;
  for (uint32_t r = 0; r < shape.rank; ++r, row += inputs) out[r] = kernels.dot(from, row, inputs);
}

}  // namespace kvick::kv
