#include "model/streams/layer_inputs.h"

#include <cmath>

#include "model/blocks/activation.h"

namespace kvick::model {
namespace {

// Returns the tokens of the pass, in batch order.
std::vector<uint32_t> tokens_of(const Pass& pass) {
  std::vector<uint32_t> all;
  for (const Slot& slot : pass.batch.slots)
    for (const Token token : slot.tokens) all.push_back(static_cast<uint32_t>(token));
  const auto first = all.begin() + pass.first;
  return {first, first + pass.tokens};
}

class LayerInputs final : public Block {
 public:
  LayerInputs(Embedding table, uint32_t rows, Linear projection, std::vector<float> norm)
      : table_(std::move(table)),
        rows_(rows),
        projection_(std::move(projection)),
        norm_(std::move(norm)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    Workspace& workspace = pass.workspace;
    const size_t floats = projection_.w.rows;  // floats per token
    project(workspace, pass.runs, pass.hidden, [](uint32_t) {},
            {{&projection_, pass.layer_inputs}});
    float* const looked_up = workspace.floats(Workspace::kFfn, pass.tokens * floats);
    const std::vector<uint32_t> tokens = tokens_of(pass);
    workspace.for_tokens(pass.tokens, floats, [&](uint32_t t) {
      float* const row = looked_up + t * floats;
      table_.row(tokens[t] < rows_ ? tokens[t] : 0, row);
      join(pass, row, pass.layer_inputs + t * floats);
    });
    return rest;
  }

 private:
  // Joins the table's row and the projection. The model divides the projection by the root of the
  // embedding's width before it normalises; here the epsilon is multiplied by the width instead,
  // which is the same. Both parts have about unit variance, and so has the scaled sum.
  void join(const Pass& pass, const float* row, float* projected) const {
    const size_t n = norm_.size(), floats = projection_.w.rows;
    const float eps = pass.config.norm_eps * static_cast<float>(pass.config.dim);
    const float scale = std::sqrt(static_cast<float>(n)), half = std::sqrt(0.5F);
    for (size_t at = 0; at < floats; at += n)
      pass.workspace.kernels.rms_norm(projected + at, norm_.data(), n, eps, projected + at);
    for (size_t i = 0; i < floats; ++i) projected[i] = half * (projected[i] + scale * row[i]);
  }

  Embedding table_;
  uint32_t rows_;  // tokens from here on use the row of token 0
  Linear projection_;
  std::vector<float> norm_;
};

class AddedLayerInput final : public Block {
 public:
  explicit AddedLayerInput(LayerInput input) : input_(std::move(input)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t dim = pass.config.dim;
    float* const room = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
    const auto prepare = [&](uint32_t t) { add_rest(pass, rest, t, room + t * dim); };
    return {input_.run(pass, pass.hidden, prepare), &input_.norm()};
  }

 private:
  LayerInput input_;
};

// Adds its scale to the Rest, which the next block applies.
class OutputScale final : public Block {
 public:
  explicit OutputScale(float scale) : scale_(scale) {}
  Rest run(const Pass&, Rest rest) const override {
    rest.scale *= scale_;
    return rest;
  }

 private:
  float scale_;
};

}  // namespace

base::Result<std::unique_ptr<Block>> read_layer_inputs(WeightReader& weights,
                                                       const Config& config) {
  const uint32_t floats = config.layer_inputs * config.layer_count();
  const std::string name = "per_layer_token_embd.weight";
  KVICK_TRY(const uint32_t rows, weights.rows_of(name));
  KVICK_TRY(io::Tensor table, weights.table(name, rows, floats));
  KVICK_TRY(Linear projection,
            weights.linear("per_layer_model_proj", floats, config.dim, WeightReader::Bias::kNone));
  KVICK_TRY(std::vector<float> norm,
            weights.norm_weight("per_layer_proj_norm", config.layer_inputs));
  return std::unique_ptr<Block>(std::make_unique<LayerInputs>(
      Embedding(std::move(table)), rows, std::move(projection), std::move(norm)));
}

base::Result<LayerInput> LayerInput::read(const BlockReader& reader) {
  using enum WeightReader::Bias;
  const uint32_t dim = reader.config.dim, floats = reader.config.layer_inputs;
  LayerInput input;
  input.layer_ = reader.layer;
  KVICK_TRY(input.gate_, reader.linear("inp_gate", floats, dim, kNone));
  KVICK_TRY(input.back_, reader.linear("proj", dim, floats, kNone));
  KVICK_TRY(input.norm_, reader.norm("post_norm"));
  return input;
}

const float* LayerInput::run(const Pass& pass, const float* x, Workspace::TokenBody prepare) const {
  const size_t n = gate_.w.rows, all = n * pass.config.layer_count();
  float* const gate = pass.workspace.floats(Workspace::kFfn, pass.tokens * n);
  project(pass.workspace, pass.runs, x, prepare, {{&gate_, gate}});
  const auto activate = [&](uint32_t t) {
    gelu_mul(pass.workspace.kernels, gate + t * n, pass.layer_inputs + t * all + layer_ * n, n,
             gate + t * n);
  };
  return project_back(pass, gate, activate, back_);
}

base::Result<std::unique_ptr<Block>> read_layer_input(const BlockReader& reader) {
  KVICK_TRY(LayerInput input, LayerInput::read(reader));
  return std::unique_ptr<Block>(std::make_unique<AddedLayerInput>(std::move(input)));
}

base::Result<std::unique_ptr<Block>> read_output_scale(const BlockReader& reader) {
  KVICK_TRY(const std::vector<float> scale,
            reader.weights.vector(reader.name("layer_output_scale.weight"), 1));
  return std::unique_ptr<Block>(std::make_unique<OutputScale>(scale[0]));
}

}  // namespace kvick::model
