// Encoders derived from BERT.

#include "model/families/family.h"
#include "model/families/read_config.h"

namespace kvick::model {

namespace {

// Files of cross-encoders may omit the pooling. A head of one label then means kRank. Some of
// jina's files have only one matrix of the head.
void find_head(const io::ModelFile& file, Config& config) {
  const io::Tensor* labels = file.find("cls.output.weight");
  if (labels == nullptr) labels = file.find("cls.weight");
  if (config.pooling || labels == nullptr) return;
  if (labels->shape.size() == 1 || (!labels->shape.empty() && labels->shape[0] == 1))
    config.pooling = Pooling::kRank;
}

}  // namespace

base::Status<> configure_bert(const io::ModelFile& file, Config& config) {
  config.learned_positions = config.arch == "bert";
  config.scored = Pooling::kCls;
  find_head(file, config);
  return base::Done{};
}

// Files rarely contain the exponent of ALiBi's slopes; it is 8 in all of these models.
base::Status<> configure_jina_bert_v2(const io::ModelFile& file, Config& config) {
  KVICK_TRY_VOID(configure_bert(file, config));
  config.head_norms = file.find("blk.0.attn_q_norm.weight") != nullptr;
  KVICK_TRY(const double alibi,
            positive_number(file, config.arch + ".attention.max_alibi_bias", 8));
  for (LayerConfig& layer : config.layers) layer.alibi = static_cast<float>(alibi);
  return base::Done{};
}

// The head that scores pairs reads the mean of the states unless the file says otherwise.
base::Status<> configure_modern_bert(const io::ModelFile& file, Config& config) {
  constexpr uint64_t kMean = 1, kCls = 2;  // GGUF's numbers of pooling types
  const std::string key = config.arch + ".classifier.pooling_type";
  KVICK_TRY(const uint64_t kind, file.get_uint(key, kMean));
  if (kind != kMean && kind != kCls)
    return base::fail("{}: {} is {}; kvick knows 1 (mean) and 2 (the first token)", file.path(),
                      key, kind);
  config.scored = kind == kCls ? Pooling::kCls : Pooling::kMean;
  find_head(file, config);
  return base::Done{};
}

base::Status<> read_bert_parts(const io::ModelFile& file, WeightReader& weights,
                               const Config& config, Parts& parts) {
  if (config.learned_positions) {
    KVICK_TRY(io::Tensor rows, weights.table("position_embd.weight", config.context, config.dim));
    parts.input.positions =
        std::make_unique<LearnedPositions>(LearnedPositions{.table = Embedding(std::move(rows))});
  }
  if (const io::Tensor* types = file.find("token_types.weight")) {
    constexpr uint64_t kMostTypes = 256;
    if (types->shape.empty() || types->shape.size() > 2 ||
        types->shape[0] > kMostTypes * config.dim)
      return base::fail("{}: token_types.weight is no matrix of a few rows", file.path());
    const bool one = types->shape.size() ==
                     1;  // there is one type; some writers then omit the outer dimension of 1
    const auto rows = one ? 1 : static_cast<uint32_t>(types->shape[0]);
    if (one) {
      KVICK_TRY(parts.input.types, weights.vector("token_types.weight", config.dim));
    } else {
      KVICK_TRY(parts.input.types, weights.rows("token_types", rows, config.dim));
    }
  }
  const NormKind kind =
      config.arch == "modern-bert" ? NormKind::kLayerWithoutBias : NormKind::kLayer;
  KVICK_TRY(parts.input.norm, read_norm(weights, "token_embd_norm", config.dim, kind));
  return base::Done{};
}

}  // namespace kvick::model
