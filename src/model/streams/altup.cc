#include "model/streams/altup.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/streams/layer_inputs.h"

namespace kvick::model {
namespace {

using Numbers = std::array<float, kMostStreams>;

float* stream(const Pass& pass, uint32_t i) {
  return pass.streams + size_t{i} * pass.tokens * pass.config.dim;
}

// Scales x to the length of y.
void match_magnitude(const kernels::Table& kernels, const float* y, float* x, size_t dim) {
  const float least = 1e-5F * static_cast<float>(dim);
  const float factor = std::sqrt(kernels.dot(y, y, dim) / std::max(kernels.dot(x, x, dim), least));
  for (size_t i = 0; i < dim; ++i) x[i] *= factor;
}

class Streams final : public Block {
 public:
  explicit Streams(std::vector<Linear> from_embedding) : linear_(std::move(from_embedding)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t dim = pass.config.dim;
    for (uint32_t i = 0; i < linear_.size(); ++i) {
      float* const own = stream(pass, i + 1);
      project(pass.workspace, pass.runs, pass.hidden, [](uint32_t) {}, {{&linear_[i], own}});
      pass.workspace.for_tokens(pass.tokens, dim, [&](uint32_t t) {
        match_magnitude(pass.workspace.kernels, pass.hidden + t * dim, own + t * dim, dim);
      });
    }
    return rest;
  }

 private:
  std::vector<Linear> linear_;
};

class Merge final : public Block {
 public:
  explicit Merge(std::vector<Linear> back) : linear_(std::move(back)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    Workspace& workspace = pass.workspace;
    const size_t dim = pass.config.dim, floats = pass.tokens * dim;
    float* const y = workspace.floats(Workspace::kFfn, linear_.size() * floats);
    for (uint32_t i = 0; i < linear_.size(); ++i)
      project(workspace, pass.runs, stream(pass, i + 1), [](uint32_t) {},
              {{&linear_[i], y + i * floats}});
    float* const room = workspace.floats(Workspace::kNormed, floats);
    workspace.for_tokens(pass.tokens, dim, [&](uint32_t t) {
      float* const hidden = pass.hidden + t * dim;
      add_rest(pass, rest, t, room + t * dim);
      for (size_t i = 0; i < linear_.size(); ++i)
        match_magnitude(workspace.kernels, hidden, y + i * floats + t * dim, dim);
      for (size_t i = 0; i < linear_.size(); ++i)
        workspace.kernels.add(hidden, y + i * floats + t * dim, dim);
      for (size_t d = 0; d < dim; ++d) hidden[d] /= static_cast<float>(linear_.size() + 1);
    });
    return {};
  }

 private:
  std::vector<Linear> linear_;
};

// Computes a number per stream from the first stream.
struct StreamRouter {
  Norm norm;
  std::vector<float> rows;  // [streams][dim]

  static base::Result<StreamRouter> read(const BlockReader& reader) {
    StreamRouter router;
    KVICK_TRY(router.norm, reader.norm("altup_router_norm"));
    KVICK_TRY(router.rows, reader.weights.rows(reader.name("altup_router"), reader.config.streams,
                                               reader.config.dim));
    return router;
  }

  // x: [dim], scratch: [dim].
  Numbers run(const Pass& pass, const float* x, float* scratch) const {
    const size_t dim = pass.config.dim;
    norm.apply(pass.workspace.kernels, x, dim, pass.config.norm_eps, scratch);
    Numbers out = {};
    for (uint32_t i = 0; i < pass.config.streams; ++i) {
      const float sum = pass.workspace.kernels.dot(rows.data() + i * dim, scratch, dim);
      out[i] = std::tanh(sum / static_cast<float>(dim));
    }
    return out;
  }
};

// Returns row `row` of matrix times x, for n streams.
float row_product(const std::vector<float>& matrix, size_t row, const Numbers& x, uint32_t n) {
  float sum = 0;
  for (uint32_t k = 0; k < n; ++k) sum += matrix[row * n + k] * x[k];
  return sum;
}

class Predict final : public Block {
 public:
  Predict(StreamRouter router, std::vector<float> coefficients)
      : router_(std::move(router)), coefficients_(std::move(coefficients)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t dim = pass.config.dim;
    float* const room = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
    pass.workspace.for_tokens(pass.tokens, pass.config.streams * dim, [&](uint32_t t) {
      add_rest(pass, rest, t, room + t * dim);
      predict(pass, t, room + t * dim);
    });
    return {};
  }

 private:
  void predict(const Pass& pass, uint32_t t, float* scratch) const {
    const size_t dim = pass.config.dim;
    const uint32_t n = pass.config.streams;
    const Numbers seen = router_.run(pass, pass.hidden + t * dim, scratch);
    std::array<Numbers, kMostStreams> of =
        {};  // of[i][k]: the factor of stream k in what is added to stream i
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t k = 0; k < n; ++k) of[i][k] = row_product(coefficients_, i * n + k, seen, n);
    std::array<float*, kMostStreams> at = {};
    for (uint32_t i = 0; i < n; ++i) at[i] = stream(pass, i) + t * dim;
    std::copy_n(pass.hidden + t * dim, dim, at[0]);
    for (size_t d = 0; d < dim; ++d) {
      Numbers x = {};
      for (uint32_t i = 0; i < n; ++i) x[i] = at[i][d];
      for (uint32_t i = 0; i < n; ++i) {
        float sum = 0;
        for (uint32_t k = 0; k < n; ++k) sum += of[i][k] * x[k];
        at[i][d] = x[i] + sum;
      }
    }
    std::copy_n(at[0], dim, pass.hidden + t * dim);
  }

  StreamRouter router_;
  std::vector<float> coefficients_;  // [streams][streams][streams]
};

struct CorrectParts {
  StreamRouter router;
  std::vector<float> coefficients;  // [streams][streams]
  std::vector<float> scale;         // [dim]
  LayerInput input;
};

class Correct final : public Block {
 public:
  explicit Correct(CorrectParts parts) : parts_(std::move(parts)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    Workspace& workspace = pass.workspace;
    const size_t dim = pass.config.dim;
    float* const x = workspace.floats(Workspace::kNormed, pass.tokens * dim);
    const auto prepare = [&](uint32_t t) {
      add_rest(pass, rest, t, x + t * dim);
      correct(pass, t, x + t * dim);
      for (size_t d = 0; d < dim; ++d) x[t * dim + d] = pass.hidden[t * dim + d] * parts_.scale[d];
    };
    const float* const y = parts_.input.run(pass, x, prepare);
    workspace.for_tokens(pass.tokens, pass.config.streams * dim, [&](uint32_t t) {
      float* const added = x + t * dim;
      parts_.input.norm().apply(workspace.kernels, y + t * dim, dim, pass.config.norm_eps, added);
      for (uint32_t i = 1; i < pass.config.streams; ++i)
        workspace.kernels.add(stream(pass, i) + t * dim, added, dim);
    });
    return {};
  }

 private:
  void correct(const Pass& pass, uint32_t t, float* scratch) const {
    const size_t dim = pass.config.dim;
    const uint32_t n = pass.config.streams;
    float* const hidden = pass.hidden + t * dim;
    const Numbers seen = parts_.router.run(pass, hidden, scratch);
    float* const guess = stream(pass, 0) + t * dim;
    for (size_t d = 0; d < dim; ++d) scratch[d] = hidden[d] - guess[d];
    for (uint32_t i = 0; i < n; ++i) {
      const float weight = 1 + row_product(parts_.coefficients, i, seen, n);
      pass.workspace.kernels.axpy(stream(pass, i) + t * dim, weight, scratch, dim);
    }
    std::copy_n(guess, dim, hidden);
  }

  CorrectParts parts_;
};

struct LaurelParts {
  Norm norm, post_norm;
  Linear left, right;
};

class LaurelAttention final : public Block {
 public:
  LaurelAttention(LaurelParts parts, std::unique_ptr<Block> attention)
      : parts_(std::move(parts)), attention_(std::move(attention)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    Workspace& workspace = pass.workspace;
    const size_t dim = pass.config.dim, rank = parts_.left.w.rows;
    float* const y = workspace.floats(Workspace::kLaurel, pass.tokens * (2 * dim + rank));
    float* const x = y + pass.tokens * dim;
    float* const low = x + pass.tokens * dim;
    const auto prepare = [&](uint32_t t) { norm_token(pass, rest, parts_.norm, t, x + t * dim); };
    project(workspace, pass.runs, x, prepare, {{&parts_.left, low}});
    project(workspace, pass.runs, low, [](uint32_t) {}, {{&parts_.right, y}});
    const Rest attended = attention_->run(pass, {});
    float* const room = workspace.floats(Workspace::kNormed, pass.tokens * dim);
    workspace.for_tokens(pass.tokens, dim, [&](uint32_t t) {
      float* const hidden = pass.hidden + t * dim;
      add_rest(pass, attended, t, room + t * dim);
      parts_.post_norm.apply(workspace.kernels, y + t * dim, dim, pass.config.norm_eps,
                             y + t * dim);
      for (size_t i = t * dim, d = 0; d < dim; ++i, ++d)
        hidden[d] = (hidden[d] + x[i] + y[i]) * std::sqrt(0.5F);
    });
    return {};
  }

 private:
  LaurelParts parts_;
  std::unique_ptr<Block> attention_;
};

// Reads a matrix for each stream but the first. GGUF has them in one tensor, folders in one tensor
// each.
base::Result<std::vector<Linear>> read_each(WeightReader& weights, const Config& config,
                                            const std::string& name) {
  if (!weights.has(name + ".0.weight"))
    return weights.heads(name, config.streams - 1, config.dim, config.dim);
  std::vector<Linear> linear;
  for (uint32_t i = 0; i + 1 < config.streams; ++i) {
    KVICK_TRY(linear.emplace_back(), weights.linear(fmt::format("{}.{}", name, i), config.dim,
                                                    config.dim, WeightReader::Bias::kNone));
  }
  return linear;
}

}  // namespace

base::Result<std::unique_ptr<Block>> read_streams(WeightReader& weights, const Config& config) {
  KVICK_TRY(std::vector<Linear> linear, read_each(weights, config, "altup_proj"));
  return std::unique_ptr<Block>(std::make_unique<Streams>(std::move(linear)));
}

base::Result<std::unique_ptr<Block>> read_merge(WeightReader& weights, const Config& config) {
  KVICK_TRY(std::vector<Linear> linear, read_each(weights, config, "altup_unembd_proj"));
  return std::unique_ptr<Block>(std::make_unique<Merge>(std::move(linear)));
}

base::Result<std::unique_ptr<Block>> read_predict(const BlockReader& reader) {
  const uint32_t n = reader.config.streams;
  KVICK_TRY(StreamRouter router, StreamRouter::read(reader));
  KVICK_TRY(std::vector<float> coefficients,
            reader.weights.rows(reader.name("altup_predict_coef"), n * n, n));
  return std::unique_ptr<Block>(
      std::make_unique<Predict>(std::move(router), std::move(coefficients)));
}

base::Result<std::unique_ptr<Block>> read_correct(const BlockReader& reader) {
  const uint32_t n = reader.config.streams;
  CorrectParts parts;
  KVICK_TRY(parts.router, StreamRouter::read(reader));
  KVICK_TRY(parts.coefficients, reader.weights.rows(reader.name("altup_correct_coef"), n, n));
  KVICK_TRY(parts.scale,
            reader.weights.vector(reader.name("altup_correct_scale.weight"), reader.config.dim));
  KVICK_TRY(parts.input, LayerInput::read(reader));
  return std::unique_ptr<Block>(std::make_unique<Correct>(std::move(parts)));
}

base::Result<std::unique_ptr<Block>> read_laurel_attention(const BlockReader& reader,
                                                           const SelfAttention::Traits& traits) {
  using enum WeightReader::Bias;
  const uint32_t dim = reader.config.dim;
  LaurelParts parts;
  KVICK_TRY(parts.norm, reader.norm(traits.norms.before));
  KVICK_TRY(const uint32_t rank, reader.weights.rows_of(reader.name("laurel_l.weight")));
  KVICK_TRY(parts.left, reader.linear("laurel_l", rank, dim, kNone));
  KVICK_TRY(parts.right, reader.linear("laurel_r", dim, rank, kNone));
  KVICK_TRY(parts.post_norm, reader.norm("laurel_post_norm"));
  KVICK_TRY(std::unique_ptr<Block> attention, SelfAttention::read(reader, traits));
  return std::unique_ptr<Block>(
      std::make_unique<LaurelAttention>(std::move(parts), std::move(attention)));
}

}  // namespace kvick::model
