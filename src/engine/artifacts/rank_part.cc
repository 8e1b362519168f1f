#include "engine/artifacts/rank_part.h"

#include "model/ranks/ranks.h"

namespace kvick::engine {
namespace {

// Returns the part's rows of [layers][heads].
template <typename T>
std::vector<T> rows_of(const std::vector<T>& all, const RankPart& part) {
  std::vector<T> own;
  for (uint32_t layer = part.first_layer; layer < part.first_layer + part.layers; ++layer) {
    const auto first = all.begin() + ptrdiff_t{layer} * part.kv_heads.whole + part.kv_heads.first;
    own.insert(own.end(), first, first + part.kv_heads.size);
  }
  return own;
}

std::vector<float> heads_of(const std::vector<float>& all, const model::Slice& heads) {
  const model::Slice floats = heads.times(static_cast<uint32_t>(all.size() / heads.whole));
  const auto first = all.begin() + floats.first;
  return {first, first + floats.size};
}

}  // namespace

RankPart rank_part(const model::Model& model) {
  const model::Config& own = model.config();
  RankPart part = {.first_layer = model.first_layer(),
                   .layers = own.layer_count(),
                   .kv_heads = own.layers.front().kv_heads};
  if (model.ranks() != nullptr && model.split() == model::RankSplit::kTensor)
    part.kv_heads = model::kv_heads_of(model.whole_config().layers.front().kv_heads,
                                       model.ranks()->rank(), model.ranks()->size());
  return part;
}

base::Result<std::shared_ptr<const kv::Predictor>> part_of(
    std::shared_ptr<const kv::Predictor> whole, const RankPart& part) {
  const kv::PredictorShape& shape = whole->shape;
  if (part.kv_heads.all() && part.layers == shape.layers) return whole;
  if (!part.kv_heads.all() && shape.form == kv::PredictorForm::kRandom)
    return base::fail(
        "its random projection covers all KV heads, but a rank has only some of them: train the "
        "predictor (kvick train maple), or use --pipeline");
  auto own = std::make_shared<kv::Predictor>();
  own->shape = shape;
  own->shape.layers = part.layers;
  own->shape.kv_heads = part.kv_heads.size;
  own->shape.heads = part.kv_heads.size * shape.group();
  own->projection = whole->projection;
  own->frequency = whole->frequency;
  own->document = whole->document;
  for (uint32_t i = part.first_layer; i < part.first_layer + part.layers; ++i)
    own->layers.push_back({.q = heads_of(whole->layers[i].q, part.kv_heads),
                           .k = heads_of(whole->layers[i].k, part.kv_heads)});
  return std::shared_ptr<const kv::Predictor>(std::move(own));
}

std::shared_ptr<const kv::StaticRanges> part_of(std::shared_ptr<const kv::StaticRanges> whole,
                                                const RankPart& part) {
  return std::make_shared<kv::StaticRanges>(
      kv::StaticRanges{.k = rows_of(whole->k, part), .v = rows_of(whole->v, part)});
}

}  // namespace kvick::engine
