// The layer after the last one that predicts one more token (multi-token prediction: DeepSeek-V3,
// 2024, section 2.2; Gloeckle et al. 2024), as a draft model.

#include <algorithm>

#include "kernels/formats/packed_bytes.h"
#include "model/families/decoder.h"
#include "model/families/read_config.h"

namespace kvick::model {
namespace {

// Returns, for each token of the pass, the state of the token before it.
std::vector<const float*> states_of(const Pass& pass) {
  std::vector<const float*> all;
  for (const Slot& slot : pass.batch.slots) {
    KVICK_CHECK(slot.states != nullptr, "{} tokens without the states before them",
                slot.tokens.size());
    for (size_t i = 0; i < slot.tokens.size(); ++i)
      all.push_back(slot.states + i * pass.config.dim);
  }
  const auto first = all.begin() + pass.first;
  return {first, first + pass.tokens};
}

// Runs before the layer: replaces the residual stream by a projection of the token's embedding and
// the state of the token before it, both normalised.
class TokenAndState final : public Block {
 public:
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader) {
    auto block = std::make_unique<TokenAndState>();
    KVICK_TRY(block->token_norm_, reader.norm("nextn.enorm"));
    KVICK_TRY(block->state_norm_, reader.norm("nextn.hnorm"));
    const uint32_t dim = reader.config.dim;
    KVICK_TRY(block->projection_,
              reader.linear("nextn.eh_proj", dim, 2 * dim, WeightReader::Bias::kNone));
    return std::unique_ptr<Block>(std::move(block));
  }

  Rest run(const Pass& pass, Rest rest) const override {
    Workspace& workspace = pass.workspace;
    const size_t dim = pass.config.dim;
    const float eps = pass.config.norm_eps;
    const std::vector<const float*> states = states_of(pass);
    float* const both = workspace.floats(Workspace::kFfn, pass.tokens * 2 * dim);
    float* const made = workspace.floats(Workspace::kProjected, pass.tokens * dim);
    const auto prepare = [&](uint32_t t) {
      float* const row = both + t * 2 * dim;
      token_norm_.apply(workspace.kernels, pass.hidden + t * dim, dim, eps, row);
      state_norm_.apply(workspace.kernels, states[t], dim, eps, row + dim);
    };
    project(workspace, pass.runs, both, prepare, {{&projection_, made}});
    std::copy_n(made, pass.tokens * dim, pass.hidden);
    return rest;
  }

 private:
  Norm token_norm_, state_norm_;
  Linear projection_;
};

// Returns the same layer over the other one's memory.
Linear shared(const Linear& other) {
  return {.w = kernels::matrix_over(other.w.dtype, other.w.rows, other.w.inputs, other.w.data),
          .bias = other.bias,
          .tensor = other.tensor};
}

}  // namespace

base::Result<std::unique_ptr<Model>> Decoder::read_drafter(const LoadOptions& options) const {
  if (ranks_ != nullptr)
    return base::fail(
        "{}: drafts by the model's own layer do not work with --ranks: leave --spec mtp out",
        file_->path());
  KVICK_TRY(Config config, read_config(*file_, &family_, options.sequence, Blocks::kDrafter));
  auto drafter = std::make_unique<Decoder>(std::move(config), file_);
  InMemory place(drafter->memory());
  KVICK_TRY_VOID(drafter->read_behind(*this, options, place));
  return std::unique_ptr<Model>(std::move(drafter));
}

base::Status<> Decoder::read_behind(const Decoder& model, const LoadOptions& options,
                                    MatrixPlace& place) {
  kernels_ = options.kernels;
  family_ = model.family_;
  WeightReader reader(*file_, options, place);
  Share share = whole_share(config_);
  share.first_layer = model.config_.layer_count();
  const BlockReader block = {
      .weights = reader, .config = config_, .share = share, .layer = 0, .norms = family_.norms};
  KVICK_TRY(parts_.before.emplace_back(), TokenAndState::read(block));
  KVICK_TRY_VOID(read_layer(0, share, reader));
  const bool own_norm = block.has("nextn.shared_head_norm.weight");
  KVICK_TRY(parts_.head.norm,
            read_norm(reader, own_norm ? block.name("nextn.shared_head_norm") : "output_norm",
                      config_.dim, family_.norms));
  parts_.input.embedding = model.parts_.input.embedding;
  if (block.has("nextn.embed_tokens.weight")) {
    KVICK_TRY(io::Tensor rows,
              reader.table(block.name("nextn.embed_tokens.weight"), config_.vocab, config_.dim));
    parts_.input.embedding = Embedding(std::move(rows));
  }
  parts_.head.output = shared(model.parts_.head.output);
  if (block.has("nextn.shared_head_head.weight")) {
    KVICK_TRY(parts_.head.output, block.linear("nextn.shared_head_head", config_.vocab, config_.dim,
                                               WeightReader::Bias::kNone));
  }
  parts_.head.vocab = share.vocab;
  weights_ = reader.weights();
  read_ahead_ = model.read_ahead_;
  return base::Done{};
}

}  // namespace kvick::model
