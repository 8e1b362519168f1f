#include "model/families/decoder.h"

#include "model/blocks/layers.h"

namespace kvick::model {
namespace {

class Decoder final : public Model {
 public:
  Decoder(Config config, io::ModelFile file) : Model(std::move(config)), file_(std::move(file)) {}

  base::Status<> read(const LoadOptions& options, const DecoderTraits& traits) {
    WeightReader reader(file_, options, memory_);
    for (uint32_t i = 0; i < config_.layers; ++i) {
      KVICK_TRY(Layer layer, read_layer(reader, fmt::format("blk.{}.", i), traits));
      layers_.push_back(std::move(layer));
    }
    KVICK_TRY(norm_, read_rms_norm(reader, "output_norm", config_.dim));
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
                       .rotation = rotations(config_.rope, batch, workspace),
                       .attend = attend};
    const float* rest = nullptr;
    for (uint32_t i = 0; i < config_.layers; ++i) {
      if (batch.skips(i)) continue;
      rest = attention(pass, rest, i, layers_[i].attention);
      rest = gated_ffn(pass, rest, layers_[i].ffn);
    }
    logits_of(pass, rest, norm_, output_, wanted, logits);
  }

 private:
  struct Layer {
    SelfAttention attention;
    GatedFfn ffn;
  };

  base::Result<Layer> read_layer(WeightReader& reader, const std::string& prefix,
                                 const DecoderTraits& traits) const {
    Layer layer;
    KVICK_TRY(layer.attention, read_attention(reader, config_, prefix, traits.qkv_bias,
                                              WeightReader::Bias::kOptional));
    KVICK_TRY(layer.attention.norm, read_rms_norm(reader, prefix + "attn_norm", config_.dim));
    if (traits.head_norm) {
      KVICK_TRY(layer.attention.q_norm,
                reader.vector(prefix + "attn_q_norm.weight", config_.head_dim));
      KVICK_TRY(layer.attention.k_norm,
                reader.vector(prefix + "attn_k_norm.weight", config_.head_dim));
    }
    KVICK_TRY(layer.ffn, read_gated_ffn(reader, config_, prefix));
    return layer;
  }

  io::ModelFile file_;  // holds the embedding's rows when they are not tied
  std::vector<Layer> layers_;
  Norm norm_;
  Embedding embedding_;
  Linear output_;
};

}  // namespace

base::Result<std::unique_ptr<Model>> load_decoder(io::ModelFile file, Config config,
                                                  const LoadOptions& options,
                                                  const DecoderTraits& traits) {
  KVICK_TRY(config.rope, read_rope(file, config));
  KVICK_TRY(config.norm_eps, read_norm_eps(file, config, "attention.layer_norm_rms_epsilon"));
  auto model = std::make_unique<Decoder>(std::move(config), std::move(file));
  KVICK_TRY_VOID(model->read(options, traits));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace kvick::model
