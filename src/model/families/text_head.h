#pragma once
// The head that is applied to a text's pooled states: dense layers (EmbeddingGemma), or a head that
// scores a pair of texts.

#include <vector>

#include "model/blocks/norm.h"
#include "model/core/config.h"

namespace kvick::model {

// y = W x + bias, for one text at a time.
struct Dense {
  uint32_t rows = 0;          // 0: no such layer
  std::vector<float> weight;  // [rows][inputs]
  std::vector<float> bias;    // [rows], or empty
  std::vector<float> of(const std::vector<float>& x) const;
};

class TextHead {
 public:
  enum class Activation : uint8_t { kTanh, kGelu };

  // Reads dense_2 and dense_3, cls, cls.norm and cls.output, if the file has them. Errors: shapes
  // that do not fit each other, more than two labels.
  static base::Result<TextHead> read(WeightReader& weights, const io::ModelFile& file,
                                     const Config& config);

  bool scores_pairs() const { return inner_.rows != 0 || outer_.rows != 0; }
  // Applies the dense layers. pooled: [dim].
  std::vector<float> embedding(std::vector<float> pooled) const;
  // Returns a score from 0 to 1: the sigmoid of one label's logit or, with two labels, the first
  // label's probability.
  float score(std::vector<float> pooled, const kernels::Table& kernels, float eps) const;

 private:
  std::vector<Dense> dense_;
  Dense inner_, outer_;  // the activation and the norm come between them
  Activation activation_ = Activation::kTanh;
  Norm norm_;
};

}  // namespace kvick::model
