#include "model/states/causal_conv.h"
#include "model/states/state_block.h"

namespace kvick::model {
namespace {

class ShortConv final : public Block {
 public:
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader) {
    auto block = std::make_unique<ShortConv>();
    const uint32_t dim = reader.config.dim;
    const auto bias = WeightReader::Bias::kOptional;
    block->layer_ = reader.layer;
    KVICK_TRY(block->norm_, reader.norm("attn_norm"));
    KVICK_TRY(block->in_, reader.linear("shortconv.in_proj", 3 * dim, dim, bias));
    KVICK_TRY(block->conv_, CausalConv::read(reader, "shortconv.conv"));
    KVICK_TRY(block->out_, reader.linear_back("shortconv.out_proj", dim, bias));
    return std::unique_ptr<Block>(std::move(block));
  }

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t dim = pass.config.dim, width = 3 * dim;
    Workspace& workspace = pass.workspace;
    float* const bcx = workspace.floats(Workspace::kQkv, pass.tokens * width);
    project_normed(pass, rest, norm_, {{&in_, bcx}});
    workspace.for_tokens(pass.tokens, dim, [&](uint32_t t) {
      float* const b = bcx + t * width;
      for (size_t i = 0; i < dim; ++i) b[i] *= b[2 * dim + i];
    });
    LayerStates states(pass, layer_);
    conv_.run(pass, states, bcx, width, CausalConv::Activation::kNone);
    states.done();
    float* const y = workspace.floats(Workspace::kAttention, pass.tokens * dim);
    const auto gate = [&](uint32_t t) {
      const float* const b = bcx + t * width;
      for (size_t i = 0; i < dim; ++i) y[t * dim + i] = b[i] * b[dim + i];
    };
    return {project_back(pass, y, gate, out_), nullptr};
  }

 private:
  uint32_t layer_ = 0;
  Norm norm_;
  Linear in_, out_;
  CausalConv conv_;
};

}  // namespace

base::Result<std::unique_ptr<Block>> read_short_conv(const BlockReader& reader) {
  return ShortConv::read(reader);
}

}  // namespace kvick::model
