// OPT: pre-norm layers with LayerNorm, learned positions, biases everywhere and a ReLU feed-forward
// block (Zhang et al. 2022). Attention is not grouped.

#include "model/blocks/layers.h"
#include "model/families/architectures.h"

namespace kvick::model {
namespace {

class Opt final : public Model {
 public:
  Opt(Config config, io::ModelFile file) : Model(std::move(config)), file_(std::move(file)) {
    config_.learned_positions = true;
  }

  base::Status<> read(const LoadOptions& options) {
    WeightReader reader(file_, options, memory_);
    // Row p of the table belongs to position p - offset: OPT was trained with two rows for padding
    // in front.
    KVICK_TRY(const uint64_t offset, file_.get_uint("opt.position_offset", 2));
    const io::Tensor* positions = file_.find("position_embd.weight");
    if (positions == nullptr || positions->shape.size() != 2 || offset > 16 ||
        positions->shape[0] < config_.context + offset)
      return base::fail(
          "{}: position_embd.weight must have a row for each of {} positions and {} more",
          file_.path(), config_.context, offset);
    position_offset_ = static_cast<uint32_t>(offset);
    KVICK_TRY(io::Tensor rows,
              reader.table("position_embd.weight", static_cast<uint32_t>(positions->shape[0]),
                           config_.dim));
    position_ = Embedding(std::move(rows));
    for (uint32_t i = 0; i < config_.layers; ++i) {
      KVICK_TRY(Layer layer, read_layer(reader, fmt::format("blk.{}.", i)));
      layers_.push_back(std::move(layer));
    }
    KVICK_TRY(norm_, read_layer_norm(reader, "output_norm", config_.dim));
    KVICK_TRY_VOID(reader.embedding(config_, embedding_, output_));
    weights_ = reader.weights();
    return base::Done{};
  }

  void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
               std::span<const uint32_t> wanted, float* logits) const override {
    check_batch(config_, batch);
    BatchAttention attend(config_, batch, step, workspace);
    const Pass pass = {.config = config_,
                       .batch = batch,
                       .step = step,
                       .workspace = workspace,
                       .tokens = batch.tokens(),
                       .runs = token_runs(batch, workspace.kernels),
                       .hidden = embed(config_, embedding_, batch, workspace),
                       .rotation = nullptr,
                       .attend = attend};
    add_positions(pass);
    const float* rest = nullptr;
    for (uint32_t i = 0; i < config_.layers; ++i) {
      if (batch.skips(i)) continue;
      rest = attention(pass, rest, i, layers_[i].attention);
      rest = relu_ffn(pass, rest, layers_[i]);
    }
    logits_of(pass, rest, norm_, output_, wanted, logits);
  }

 private:
  struct Layer {
    SelfAttention attention;
    Norm ffn_norm;
    Linear up, down;
  };

  base::Result<Layer> read_layer(WeightReader& reader, const std::string& prefix) const {
    using enum WeightReader::Bias;
    Layer layer;
    KVICK_TRY(layer.attention, read_attention(reader, config_, prefix, kRequired, kRequired));
    KVICK_TRY(layer.attention.norm, read_layer_norm(reader, prefix + "attn_norm", config_.dim));
    KVICK_TRY(layer.ffn_norm, read_layer_norm(reader, prefix + "ffn_norm", config_.dim));
    KVICK_TRY(layer.up, reader.linear(prefix + "ffn_up", config_.ffn, config_.dim, kRequired));
    KVICK_TRY(layer.down, reader.linear(prefix + "ffn_down", config_.dim, config_.ffn, kRequired));
    return layer;
  }

  void add_positions(const Pass& pass) const {
    const std::vector<uint32_t> position = positions(pass.batch);
    std::vector<float> row(config_.dim);
    for (uint32_t t = 0; t < pass.tokens; ++t) {
      KVICK_CHECK(position[t] < config_.context, "position {} of a context of {}", position[t],
                  config_.context);
      position_.row(position[t] + position_offset_, row.data());
      pass.workspace.kernels.add(pass.hidden + size_t{t} * config_.dim, row.data(), config_.dim);
    }
  }

  const float* relu_ffn(const Pass& pass, const float* rest, const Layer& layer) const {
    const size_t ffn = config_.ffn;
    float* up = pass.workspace.floats(Workspace::kFfn, pass.tokens * ffn);
    project_normed(pass, rest, layer.ffn_norm, {{&layer.up, up}});
    const auto prepare = [&](uint32_t t) { pass.workspace.kernels.relu(up + t * ffn, ffn); };
    return project_back(pass, up, prepare, layer.down);
  }

  io::ModelFile file_;  // holds the embeddings' rows
  uint32_t position_offset_ = 0;
  std::vector<Layer> layers_;
  Norm norm_;
  Embedding embedding_, position_;
  Linear output_;
};

}  // namespace

base::Result<std::unique_ptr<Model>> load_opt(io::ModelFile file, Config config,
                                              const LoadOptions& options) {
  KVICK_TRY(config.norm_eps, read_norm_eps(file, config, "attention.layer_norm_epsilon"));
  auto model = std::make_unique<Opt>(std::move(config), std::move(file));
  KVICK_TRY_VOID(model->read(options));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace kvick::model
