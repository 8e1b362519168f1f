#include "model/families/decoder.h"

#include "model/blocks/read_ahead.h"

namespace kvick::model {
namespace {

base::Result<Layer> read_layer(const BlockReader& reader, const Family& family, Parts& parts) {
  if (family.read_layer != nullptr) return family.read_layer(reader, family, parts);
  Layer layer(2);
  KVICK_TRY(layer[0], SelfAttention::read(reader, family.attention));
  if (reader.numbers().experts.count > 0) {
    KVICK_TRY(layer[1], read_mixture(reader, family.mixture));
  } else {
    KVICK_TRY(layer[1], read_feed_forward(reader, family.feed_forward));
  }
  return layer;
}

// Whether the forward leaves the layer out: there are no rows to read where those of the layer that
// it shares them with were not written. first: of the model's layers, the config's first one.
bool skips(const Batch& batch, const Config& config, uint32_t first, uint32_t layer) {
  const uint32_t rows_of = config.layers[layer].rows_of;
  return batch.skips(first + layer) ||
         (rows_of != LayerConfig::kNone && batch.skips(first + rows_of));
}

}  // namespace

// What this process holds of the model; with ranks the config becomes that of its share.
base::Result<Share> Decoder::take_share(const LoadOptions& options) {
  ranks_ = options.ranks != nullptr && options.ranks->size() > 1 ? options.ranks : nullptr;
  if (ranks_ == nullptr) return whole_share(config_);
  pipeline_ = options.split == RankSplit::kPipeline;
  const auto find = [&](std::string_view name) { return file_.find(name); };
  const auto divide = pipeline_ ? stage_of : share_of;
  auto share = divide(config_, ffn_shapes(config_, find), ranks_->rank(), ranks_->size());
  if (!share.ok()) return base::fail("{}: {}", file_.path(), share.error().message);
  first_layer_ = share->first_layer;
  config_ = config_of(std::move(config_), *share);
  return share;
}

base::Status<> Decoder::read(const Family& family, const LoadOptions& options, MatrixPlace& place) {
  WeightReader reader(file_, options, place);
  KVICK_TRY(const Share share, take_share(options));
  if (family.read_parts != nullptr)
    KVICK_TRY_VOID(family.read_parts(file_, reader, config_, parts_));
  for (uint32_t i = 0; i < config_.layer_count(); ++i) {
    const BlockReader block = {.weights = reader,
                               .config = config_,
                               .share = share,
                               .layer = i,
                               .norms = family.norms,
                               .expert_memory = experts_ ? &*experts_ : nullptr};
    KVICK_TRY(Layer layer, read_layer(block, family, parts_));
    layers_.push_back(std::move(layer));
  }
  KVICK_TRY(parts_.head.norm, read_norm(reader, "output_norm", config_.dim, family.norms));
  KVICK_TRY_VOID(reader.embedding(config_, share, parts_.input.embedding, parts_.head.output));
  parts_.head.vocab = share.vocab;
  weights_ = reader.weights();
  if (experts_) KVICK_TRY_VOID(experts_->fill(*options.pool));
  read_ahead_ = choose_read_ahead(reader.matrices(), *options.kernels, *options.pool);
  return base::Done{};
}

const kv::Slots* Decoder::trained_slots() const {
  return parts_.slots != nullptr ? &parts_.slots->facts : nullptr;
}

std::optional<ExpertStats> Decoder::expert_stats() const {
  if (!experts_) return std::nullopt;
  return experts_->stats();
}

void Decoder::forward(const Batch& batch, kv::Step& step, Workspace& workspace,
                      std::span<const uint32_t> wanted, float* logits) const {
  workspace.read_ahead = read_ahead_;
  if (ranks_ == nullptr || pipeline_) {
    check_batch(config_, batch);
    const Forward forward = {batch, step, workspace, positions_of(batch)};
    pipeline_ ? compute_stage(forward, wanted, logits) : compute(forward, wanted, logits);
  } else {
    try {
      check_batch(config_, batch);
      compute({batch, step, workspace, positions_of(batch)}, wanted, logits);
    } catch (const RankFailed&) {
      throw;
    } catch (const RankLost&) {
      throw;
    } catch (...) {  // the others wait for this rank's part
      ranks_->give_up();
      throw;
    }
  }
  if (ranks_ != nullptr && !ranks_->leads()) return;
  parts_.head.finish(config_, workspace, static_cast<uint32_t>(wanted.size()), logits);
}

void Decoder::run_layers(const Forward& forward, TokenRange range, float* hidden, End end) const {
  const Batch& batch = forward.batch;
  Workspace& workspace = forward.workspace;
  BatchAttention attend(config_, batch, range, forward.step, workspace);
  const auto first = forward.positions.begin() + range.first;
  std::vector<uint32_t> positions(first, first + range.tokens);
  std::vector<const float*> turns = rotations(config_, positions, workspace);
  const Pass pass = {.config = config_,
                     .batch = batch,
                     .step = forward.step,
                     .workspace = workspace,
                     .first = range.first,
                     .tokens = range.tokens,
                     .runs = token_runs(batch, range, workspace.kernels),
                     .positions = std::move(positions),
                     .hidden = hidden,
                     .rotations = std::move(turns),
                     .attend = attend,
                     .ranks = pipeline_ ? nullptr : ranks_};
  Rest rest;
  for (uint32_t i = 0; i < config_.layer_count(); ++i) {
    if (skips(batch, config_, first_layer_, i)) continue;
    for (const std::unique_ptr<Block>& block : layers_[i]) rest = block->run(pass, rest);
  }
  end(pass, rest);
}

void Decoder::compute(const Forward& forward, std::span<const uint32_t> wanted,
                      float* logits) const {
  const TokenRange all = {0, forward.batch.tokens()};
  float* const hidden =
      parts_.input.run(config_, forward.batch, all, forward.positions, forward.workspace);
  run_layers(forward, all, hidden,
             [&](const Pass& pass, Rest rest) { parts_.head.run(pass, rest, wanted, logits); });
}

}  // namespace kvick::model
