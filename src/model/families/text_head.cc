#include "model/families/text_head.h"

#include <cmath>

#include "model/blocks/activation.h"

namespace kvick::model {
namespace {

using base::Result;

constexpr uint64_t kMostRows = 1 << 16;

// Reads `name`.weight with any number of rows, and `name`.bias. No such tensor: an empty layer.
Result<Dense> read_dense(WeightReader& weights, const io::ModelFile& file, const std::string& name,
                         uint32_t inputs) {
  Dense dense;
  const io::Tensor* tensor = file.find(name + ".weight");
  if (tensor == nullptr) return dense;
  if (tensor->shape.empty() || tensor->shape.size() > 2 || tensor->shape[0] > kMostRows)
    return base::fail("{}: tensor {}.weight is not a matrix of at most {} rows", file.path(), name,
                      kMostRows);
  if (tensor->shape.size() == 1) {  // it has one row
    dense.rows = 1;
    KVICK_TRY(dense.weight, weights.vector(name + ".weight", inputs));
  } else {
    dense.rows = static_cast<uint32_t>(tensor->shape[0]);
    KVICK_TRY(dense.weight, weights.rows(name, dense.rows, inputs));
  }
  if (weights.has(name + ".bias")) {
    KVICK_TRY(dense.bias, weights.vector(name + ".bias", dense.rows));
  }
  return dense;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

std::vector<float> Dense::of(const std::vector<float>& x) const {
  std::vector<float> y;
  for (uint32_t r = 0; r < rows; ++r) {
    const float* const row = weight.data() + size_t{r} * x.size();
    double sum = bias.empty() ? 0 : bias[r];
    for (size_t i = 0; i < x.size(); ++i) sum += double{row[i]} * x[i];
    y.push_back(static_cast<float>(sum));
  }
  return y;
}

Result<TextHead> TextHead::read(WeightReader& weights, const io::ModelFile& file,
                                const Config& config) {
  TextHead head;
  uint32_t width = config.dim;
  for (const char* name : {"dense_2", "dense_3"}) {
    KVICK_TRY(Dense dense, read_dense(weights, file, name, width));
    if (dense.rows == 0) continue;
    width = dense.rows;
    head.dense_.push_back(std::move(dense));
  }
  if (width != config.dim)
    return base::fail(
        "{}: the dense layers behind the pooling give {} numbers, but the model is {} "
        "wide",
        file.path(), width, config.dim);
  KVICK_TRY(head.inner_, read_dense(weights, file, "cls", config.dim));
  if (head.inner_.rows != 0) width = head.inner_.rows;
  if (weights.has("cls.norm.weight")) {
    KVICK_TRY(head.norm_, read_norm(weights, "cls.norm", width, NormKind::kLayerWithoutBias));
  }
  KVICK_TRY(head.outer_, read_dense(weights, file, "cls.output", width));
  const uint32_t labels = head.outer_.rows != 0 ? head.outer_.rows : head.inner_.rows;
  if (config.pooling == Pooling::kRank && labels > 2)
    return base::fail(
        "{}: its head gives {} labels; kvick scores pairs by a head of one label, or of yes and no",
        file.path(), labels);
  if (config.arch == "modern-bert") head.activation_ = Activation::kGelu;
  return head;
}

std::vector<float> TextHead::embedding(std::vector<float> pooled) const {
  for (const Dense& dense : dense_) pooled = dense.of(pooled);
  return pooled;
}

float TextHead::score(std::vector<float> pooled, const kernels::Table& kernels, float eps) const {
  if (inner_.rows != 0) {
    pooled = inner_.of(pooled);
    if (activation_ == Activation::kGelu)
      gelu(kernels, pooled.data(), pooled.size());
    else
      for (float& x : pooled) x = std::tanh(x);
    norm_.apply(kernels, pooled.data(), pooled.size(), eps, pooled.data());
  }
  if (outer_.rows != 0) pooled = outer_.of(pooled);
  const double logit = pooled.size() > 1 ? double{pooled[0]} - pooled[1] : pooled[0];
  return static_cast<float>(sigmoid(logit));
}

}  // namespace kvick::model
