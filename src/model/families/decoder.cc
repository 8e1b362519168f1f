#include "model/families/decoder.h"

#include "model/blocks/low_rank.h"
#include "model/blocks/read_ahead.h"
#include "model/states/state_block.h"

namespace kvick::model {
namespace {

base::Result<Layer> read_blocks(const BlockReader& reader, const Family& family, Parts& parts) {
  if (family.read_layer != nullptr) return family.read_layer(reader, family, parts);
  const LayerConfig& numbers = reader.numbers();
  Layer layer;
  const auto add = [&](base::Result<std::unique_ptr<Block>> block) -> base::Status<> {
    KVICK_TRY(layer.emplace_back(), std::move(block));
    return base::Done{};
  };
  if (numbers.kind == LayerConfig::Kind::kState)
    KVICK_TRY_VOID(add(read_state_block(reader)));
  else if (numbers.is_latent())
    KVICK_TRY_VOID(add(LatentAttention::read(reader, family.attention.norms)));
  else if (numbers.attends())
    KVICK_TRY_VOID(add(SelfAttention::read(reader, family.attention)));
  if (numbers.experts.count > 0)
    KVICK_TRY_VOID(add(read_mixture(reader, family.mixture)));
  else if (numbers.ffn > 0)
    KVICK_TRY_VOID(add(read_feed_forward(reader, family.feed_forward)));
  return layer;
}

// Returns the family with the gates' function that the file names: some ModernBERTs use silu.
base::Result<Family> with_gates_of(const io::ModelFile& file, Family family) {
  FeedForward& form = family.feed_forward.form;
  if (form != FeedForward::kGatedSilu && form != FeedForward::kGatedGelu) return family;
  const std::string key = std::string(family.name) + ".hidden_activation";
  KVICK_TRY(const std::string name, file.get_string(key, ""));
  if (name == "silu" || name == "swish")
    form = FeedForward::kGatedSilu;
  else if (name.starts_with("gelu"))
    form = FeedForward::kGatedGelu;
  else if (!name.empty())
    return base::fail("{}: {} is {}; kvick has gates by gelu and silu", file.path(), key, name);
  return family;
}

// Returns whether forward skips the layer: because of Batch::skipped, or because it reads the rows
// of a skipped layer. first: the model's index of the config's first layer.
bool skips(const Batch& batch, const Config& config, uint32_t first, uint32_t layer) {
  const uint32_t rows_of = config.layers[layer].rows_of;
  return batch.skips(first + layer) ||
         (rows_of != LayerConfig::kNone && batch.skips(first + rows_of));
}

}  // namespace

// Returns the share of the model that this process holds. With several ranks, config_ becomes that
// of the share.
base::Result<Share> Decoder::take_share(const LoadOptions& options) {
  ranks_ = options.ranks != nullptr && options.ranks->size() > 1 ? options.ranks : nullptr;
  if (ranks_ == nullptr) return whole_share(config_);
  if (config_.both_ways())
    return base::fail("{}: {} is an encoder, which runs as one process: leave --ranks out",
                      file_->path(), config_.arch);
  split_ = options.split;
  pipeline_ = split_ == RankSplit::kPipeline;
  const auto find = [&](std::string_view name) { return file_->find(name); };
  const auto divide = pipeline_ ? stage_of : share_of;
  auto share = divide(config_, ffn_shapes(config_, find), ranks_->rank(), ranks_->size());
  if (!share.ok()) return base::fail("{}: {}", file_->path(), share.error().message);
  first_layer_ = share->first_layer;
  whole_config_ = config_;
  config_ = config_of(std::move(config_), *share);
  return share;
}

base::Status<> Decoder::read(const Family& family, const LoadOptions& options, MatrixPlace& place) {
  kernels_ = options.kernels;
  WeightReader reader(*file_, options, place);
  KVICK_TRY(const Share share, take_share(options));
  if (family.read_parts != nullptr)
    KVICK_TRY_VOID(family.read_parts(*file_, reader, config_, parts_));
  KVICK_TRY(family_, with_gates_of(*file_, family));
  for (uint32_t i = 0; i < config_.layer_count(); ++i) KVICK_TRY_VOID(read_layer(i, share, reader));
  if (!family.last_norm.empty()) {
    KVICK_TRY(parts_.head.norm,
              read_norm(reader, std::string(family.last_norm), config_.dim, family.norms));
  }
  KVICK_TRY_VOID(reader.embedding(config_, share, parts_.input.embedding, parts_.head.output));
  KVICK_TRY(parts_.text, TextHead::read(reader, *file_, config_));
  parts_.head.vocab = share.vocab;
  weights_ = reader.weights();
  if (experts_) KVICK_TRY_VOID(experts_->fill(*options.pool));
  read_ahead_ = choose_read_ahead(reader.matrices(), *options.kernels, *options.pool);
  return base::Done{};
}

base::Status<> Decoder::read_layer(uint32_t index, const Share& share, WeightReader& reader) {
  const BlockReader block = {.weights = reader,
                             .config = config_,
                             .share = share,
                             .layer = index,
                             .norms = family_.norms,
                             .expert_memory = experts_ ? &*experts_ : nullptr};
  KVICK_TRY(Layer layer, read_blocks(block, family_, parts_));
  layers_.push_back(std::move(layer));
  return base::Done{};
}

const kv::Slots* Decoder::trained_slots() const {
  return parts_.slots != nullptr ? &parts_.slots->facts : nullptr;
}

std::optional<ExpertStats> Decoder::expert_stats() const {
  if (!experts_) return std::nullopt;
  return experts_->stats();
}

std::vector<float> Decoder::head_of(Pooling kind, std::vector<float> pooled) const {
  if (kind != Pooling::kRank) return parts_.text.embedding(std::move(pooled));
  KVICK_CHECK(scores_pairs(), "{} scores no pairs", config_.name);
  return {parts_.text.score(std::move(pooled), *kernels_, config_.norm_eps)};
}

std::vector<uint64_t> Decoder::shape_of(std::string_view tensor) const {
  const io::Tensor* const found = file_->find(tensor);
  return found != nullptr ? found->shape : std::vector<uint64_t>();
}

void Decoder::forward(const Batch& batch, kv::Step& step, Workspace& workspace,
                      std::span<const uint32_t> wanted, float* logits) const {
  workspace.read_ahead = read_ahead_;
  KVICK_CHECK(batch.states == nullptr || has_states(), "states of a model in {} pieces",
              ranks_->size());
  KVICK_CHECK(wanted.empty() || !config_.both_ways(), "logits of {} tokens of an encoder",
              wanted.size());
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
    } catch (...) {  // the other ranks wait for this rank's part
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
  const size_t layer_inputs = size_t{config_.layer_inputs} * config_.layer_count();
  const size_t streams = config_.streams > 1 ? size_t{config_.streams} * config_.dim : 0;
  const auto room = [&](Workspace::Name name, size_t floats) {
    return floats > 0 ? workspace.floats(name, range.tokens * floats) : nullptr;
  };
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
                     .layer_inputs = room(Workspace::kLayerInputs, layer_inputs),
                     .streams = room(Workspace::kStreams, streams),
                     .attend = attend,
                     .ranks = pipeline_ ? nullptr : ranks_};
  workspace.adapters = adapter_runs(batch, range);
  KVICK_CHECK(workspace.adapters.empty() || ranks_ == nullptr, "adapters on {} ranks",
              ranks_->size());
  Rest rest;
  const auto run = [&](const Layer& blocks) {
    for (const std::unique_ptr<Block>& block : blocks) rest = block->run(pass, rest);
  };
  run(parts_.before);
  for (uint32_t i = 0; i < config_.layer_count(); ++i) {
    if (skips(batch, config_, first_layer_, i)) continue;
    run(layers_[i]);
  }
  run(parts_.behind);
  workspace.adapters.clear();  // text heads and draft models run on other tokens
  end(pass, rest);
}

void Decoder::compute(const Forward& forward, std::span<const uint32_t> wanted,
                      float* logits) const {
  const TokenRange all = {0, forward.batch.tokens()};
  float* const hidden =
      parts_.input.run(config_, forward.batch, all, forward.positions, forward.workspace);
  run_layers(forward, all, hidden, [&](const Pass& pass, Rest rest) {
    parts_.head.run_states(pass, rest);
    parts_.head.run(pass, rest, wanted, logits);
  });
}

}  // namespace kvick::model
