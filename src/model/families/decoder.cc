#include "model/families/decoder.h"

#include "model/families/read_config.h"

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
// it shares them with were not written.
bool skips(const Batch& batch, const Config& config, uint32_t layer) {
  const uint32_t rows_of = config.layers[layer].rows_of;
  return batch.skips(layer) || (rows_of != LayerConfig::kNone && batch.skips(rows_of));
}

}  // namespace

// What this process holds of the model; with ranks the config becomes that of its share.
base::Result<Share> Decoder::take_share(const LoadOptions& options) {
  ranks_ = options.ranks != nullptr && options.ranks->size() > 1 ? options.ranks : nullptr;
  if (ranks_ == nullptr) return whole_share(config_);
  const auto find = [&](std::string_view name) { return file_.find(name); };
  auto share = share_of(config_, ffn_shapes(config_, find), ranks_->rank(), ranks_->size());
  if (!share.ok()) return base::fail("{}: {}", file_.path(), share.error().message);
  config_ = config_of(std::move(config_), *share);
  return share;
}

base::Status<> Decoder::read(const Family& family, const LoadOptions& options) {
  WeightReader reader(file_, options, memory_);
  KVICK_TRY(const Share share, take_share(options));
  if (family.read_parts != nullptr)
    KVICK_TRY_VOID(family.read_parts(file_, reader, config_, parts_));
  for (uint32_t i = 0; i < config_.layer_count(); ++i) {
    const BlockReader block = {
        .weights = reader, .config = config_, .share = share, .layer = i, .norms = family.norms};
    KVICK_TRY(Layer layer, read_layer(block, family, parts_));
    layers_.push_back(std::move(layer));
  }
  KVICK_TRY(parts_.head.norm, read_norm(reader, "output_norm", config_.dim, family.norms));
  KVICK_TRY_VOID(
      reader.embedding(config_, share.vocab, parts_.input.embedding, parts_.head.output));
  parts_.head.vocab = share.vocab;
  weights_ = reader.weights();
  return base::Done{};
}

const kv::Slots* Decoder::trained_slots() const {
  return parts_.slots != nullptr ? &parts_.slots->facts : nullptr;
}

void Decoder::forward(const Batch& batch, kv::Step& step, Workspace& workspace,
                      std::span<const uint32_t> wanted, float* logits) const {
  if (ranks_ == nullptr) {
    compute(batch, step, workspace, wanted, logits);
  } else {
    try {
      compute(batch, step, workspace, wanted, logits);
    } catch (const RankFailed&) {
      throw;
    } catch (const RankLost&) {
      throw;
    } catch (...) {  // the others wait for this rank's part
      ranks_->give_up();
      throw;
    }
    if (!ranks_->leads()) return;
  }
  parts_.head.finish(config_, workspace, static_cast<uint32_t>(wanted.size()), logits);
}

void Decoder::compute(const Batch& batch, kv::Step& step, Workspace& workspace,
                      std::span<const uint32_t> wanted, float* logits) const {
  check_batch(config_, batch);
  BatchAttention attend(config_, batch, step, workspace);
  std::vector<uint32_t> positions = positions_of(batch);
  float* const hidden = parts_.input.run(config_, batch, positions, workspace);
  std::vector<const float*> turns = rotations(config_, positions, workspace);
  const Pass pass = {.config = config_,
                     .batch = batch,
                     .step = step,
                     .workspace = workspace,
                     .tokens = batch.tokens(),
                     .runs = token_runs(batch, workspace.kernels),
                     .positions = std::move(positions),
                     .hidden = hidden,
                     .rotations = std::move(turns),
                     .attend = attend,
                     .ranks = ranks_};
  Rest rest;
  for (uint32_t i = 0; i < config_.layer_count(); ++i) {
    if (skips(batch, config_, i)) continue;
    for (const std::unique_ptr<Block>& block : layers_[i]) rest = block->run(pass, rest);
  }
  parts_.head.run(pass, rest, wanted, logits);
}

base::Result<std::unique_ptr<Model>> Model::load(io::ModelFile file, const LoadOptions& options) {
  KVICK_CHECK(options.kernels != nullptr && options.pool != nullptr,
              "load needs kernels and threads");
  KVICK_TRY(const std::string arch, file.get_string("general.architecture"));
  const Family* family = find_family(arch, options.families);
  if (family == nullptr) {
    std::string names;
    for (const Family& known : families())
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    return base::fail("{}: general.architecture is \"{}\"; kvick runs {}", file.path(), arch,
                      names);
  }
  KVICK_TRY(Config config, read_config(file, family, options.sequence));
  auto model = std::make_unique<Decoder>(std::move(config), std::move(file));
  KVICK_TRY_VOID(model->read(*family, options));
  if (!options.outputs.empty()) model->outputs_ = static_cast<uint32_t>(options.outputs.size());
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace kvick::model
