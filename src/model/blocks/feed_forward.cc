#include "model/blocks/feed_forward.h"

#include "model/blocks/activation.h"

namespace kvick::model {
namespace {

struct Parts {
  BlockNorms norms;
  Linear gate, up, down;
};

class GatedFeedForward final : public Block {
 public:
  GatedFeedForward(Parts parts, bool gelu, float sparsity)
      : parts_(std::move(parts)), gelu_(gelu), sparsity_(sparsity) {}

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t dim = pass.config.dim;
    float* x = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
    float* const y = room_for_output(pass);
    const auto prepare = [&](uint32_t t) {
      norm_token(pass, rest, parts_.norms.before, t, x + t * dim);
    };
    project_gated(pass.workspace, pass.runs, x, prepare,
                  {parts_.gate, parts_.up, parts_.down, gelu_, sparsity_}, y);
    return rest_of(sum_of_ranks(pass, y), parts_.norms);
  }

 private:
  Parts parts_;
  bool gelu_;
  float sparsity_;
};

class PlainFeedForward final : public Block {
 public:
  using Activation = void (*)(const kernels::Table&, float* x, size_t n);
  PlainFeedForward(Parts parts, Activation activation)
      : parts_(std::move(parts)), activation_(activation) {}

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t ffn = parts_.up.w.rows;
    float* up = pass.workspace.floats(Workspace::kFfn, pass.tokens * ffn);
    project_normed(pass, rest, parts_.norms.before, {{&parts_.up, up}});
    const auto activate = [&](uint32_t t) {
      activation_(pass.workspace.kernels, up + t * ffn, ffn);
    };
    return rest_of(project_back(pass, up, activate, parts_.down), parts_.norms);
  }

 private:
  Parts parts_;
  Activation activation_;
};

}  // namespace

Slice rows_of_both(Slice width, bool up) {
  const uint32_t first = (up ? width.whole : 0) + width.first;
  return {2 * width.whole, first, first + width.size};
}

base::Result<std::unique_ptr<Block>> read_feed_forward(const BlockReader& reader,
                                                       const FeedForwardTraits& traits) {
  const uint32_t dim = reader.config.dim;
  const Slice ffn = reader.of_width();
  const bool gated =
      traits.form == FeedForward::kGatedSilu || traits.form == FeedForward::kGatedGelu;
  Parts parts;
  KVICK_TRY(parts.norms, reader.norms_of(traits.norms));
  if (gated && !reader.has("ffn_gate.weight")) {  // ffn_up holds both
    KVICK_TRY(parts.gate, reader.linear("ffn_up", rows_of_both(ffn, false), dim, traits.bias));
    KVICK_TRY(parts.up, reader.linear("ffn_up", rows_of_both(ffn, true), dim, traits.bias));
  } else {
    if (gated) {
      KVICK_TRY(parts.gate, reader.linear("ffn_gate", ffn, dim, traits.bias));
    }
    KVICK_TRY(parts.up, reader.linear("ffn_up", ffn, dim, traits.bias));
  }
  KVICK_TRY(parts.down, reader.linear_back("ffn_down", ffn, traits.bias));
  using enum FeedForward;
  const auto plain = [&](PlainFeedForward::Activation activation) {
    return std::unique_ptr<Block>(std::make_unique<PlainFeedForward>(std::move(parts), activation));
  };
  if (traits.form == kGelu) return plain(gelu);
  if (traits.form == kRelu) return plain(relu);
  if (traits.form == kReluSquared) return plain(relu_squared);
  return std::unique_ptr<Block>(std::make_unique<GatedFeedForward>(
      std::move(parts), traits.form == kGatedGelu, reader.numbers().sparsity));
}

}  // namespace kvick::model
