#include "train/from_model/start.h"

#include <cmath>
#include <limits>
#include <set>

#include "model/core/config.h"
#include "model/core/vocabulary.h"
#include "train/from_model/tokenise.h"
#include "train/settings/shapes.h"

namespace kvick::train {
namespace {

using base::fail;

// Checks that the engine's rotary frequencies follow the plain formula, the only one that the
// trainer's forward pass has.
base::Status<> check_rope(const io::ModelFile& file, const model::Config& config, double base) {
  const model::Rope& rope = config.rope_of(0);
  const bool whole = rope.dims == config.layers.front().k_dim && rope.interleaved;
  bool plain = rope.magnitude == 1;
  for (size_t i = 0; i < rope.frequency.size(); ++i) {
    const double expected = std::pow(base, -2.0 * static_cast<double>(i) / rope.dims);
    plain = plain && std::abs(rope.frequency[i] - expected) <= 1e-9 * expected;
  }
  if (whole && plain) return base::Done{};
  return fail("{}: kvick-train does not support its rotary position: {}", file.path(),
              plain ? "of a part of each head, or of its halves" : "scaled");
}

base::Result<ModelSettings> settings_of(const io::ModelFile& file, const model::Config& config) {
  if (config.arch != "llama")
    return fail(
        "{}: its architecture is {}; kvick-train starts from models of the architecture llama only",
        file.path(), config.arch);
  const model::LayerConfig& layer = config.layers.front();
  for (const model::LayerConfig& other : config.layers)
    if (other != layer || layer.window != 0)
      return fail("{}: its layers differ or have windows, which kvick-train does not support",
                  file.path());
  KVICK_TRY(const double base, file.get_float("llama.rope.freq_base", 10000));
  KVICK_TRY_VOID(check_rope(file, config, base));
  return ModelSettings{.arch = "llama",
                       .dim = config.dim,
                       .layers = config.layer_count(),
                       .heads = layer.heads,
                       .kv_heads = layer.kv_heads,
                       .head_dim = layer.k_dim,
                       .ffn = layer.ffn,
                       .vocab = config.vocab,
                       .context = config.context,
                       .rope_base = base,
                       .norm_eps = config.norm_eps};
}

// Checks that the trainer has every tensor of the file: any other tensor means another forward
// pass.
base::Status<> check_tensors(const io::ModelFile& file, const ModelSettings& model) {
  std::set<std::string, std::less<>> known;
  for (const TensorShape& tensor : tensors_of(model)) {
    const io::Tensor* found = file.find(tensor.name);
    if (found == nullptr || found->shape != tensor.shape)
      return fail("{}: tensor {} is missing or has another shape than its metadata say",
                  file.path(), tensor.name);
    known.insert(tensor.name);
  }
  for (const io::Tensor& tensor : file.tensors())
    if (!known.contains(tensor.name))
      return fail("{}: has a tensor {}, which kvick-train does not support", file.path(),
                  tensor.name);
  return base::Done{};
}

void append(const io::Tensor& tensor, std::vector<float>& to) {
  const size_t before = to.size();
  to.resize(before + tensor.elements());
  tensor.read_floats(to.data() + before);
}

// Returns a tensor's name in the file, where its layer may have another number.
std::string name_in_file(const std::string& name, std::span<const uint32_t> layers) {
  if (layers.empty() || !name.starts_with("blk.")) return name;
  const size_t dot = name.find('.', 4);
  return fmt::format("blk.{}{}", layers[std::stoul(name.substr(4, dot - 4))], name.substr(dot));
}

// Scales rows so that a row of W_K and the matching rows of the query heads' W_Q have equal size.
// Scores are products of both, so multiplying one by a factor and dividing the other by it leaves
// them unchanged. One learning rate suits rows of equal size.
kv::PredictorLayer evened(kv::PredictorLayer layer, const kv::PredictorShape& shape) {
  const size_t d = shape.head_dim, group = shape.group();
  const auto square = [&](const float* row) {
    double sum = 0;
    for (size_t i = 0; i < d; ++i) sum += double{row[i]} * row[i];
    return sum;
  };
  for (size_t row = 0; row < size_t{shape.kv_heads} * shape.rank; ++row) {
    const size_t head = row / shape.rank, r = row % shape.rank;
    const auto query = [&](size_t g) {
      return &layer.q[((head * group + g) * shape.rank + r) * d];
    };
    double queries = 0;
    for (size_t g = 0; g < group; ++g) queries += square(query(g)) / static_cast<double>(group);
    const double keys = square(&layer.k[row * d]);
    if (!(keys > 0 && queries > 0)) continue;
    const auto factor = static_cast<float>(std::pow(queries / keys, 0.25));
    for (size_t i = 0; i < d; ++i) layer.k[row * d + i] *= factor;
    for (size_t g = 0; g < group; ++g)
      for (size_t i = 0; i < d; ++i) query(g)[i] /= factor;
  }
  return layer;
}

}  // namespace

base::Result<Checkpoint> start_of(const io::ModelFile& file, std::span<const uint32_t> layers) {
  KVICK_TRY(const model::Config config, model::read_config(file));
  Checkpoint out;
  KVICK_TRY(out.settings.model, settings_of(file, config));
  KVICK_TRY_VOID(check_tensors(file, out.settings.model));
  for (const uint32_t layer : layers)
    if (layer >= config.layer_count())
      return fail("{}: has no layer {}, only 0 to {}", file.path(), layer,
                  config.layer_count() - 1);
  if (!layers.empty()) out.settings.model.layers = layers.size();
  complete(out.settings);
  KVICK_TRY(const text::Vocabulary vocabulary, model::read_vocabulary(file));
  out.vocabulary = written(vocabulary);
  out.best_held_out = std::numeric_limits<double>::infinity();
  out.values.reserve(elements_of(out.settings.model));
  for (const TensorShape& tensor : tensors_of(out.settings.model))
    append(*file.find(name_in_file(tensor.name, layers)), out.values);
  return out;
}

base::Status<> add_predictor(const kv::Predictor& predictor, Checkpoint& start) {
  const kv::PredictorShape& shape = predictor.shape;
  if (shape.form != kv::PredictorForm::kHeads)
    return fail("a predictor of the form heads can be trained on, as kvick train distil makes it");
  Settings settings = start.settings;
  settings.model.rank = shape.rank;
  std::vector<float> values;
  values.reserve(elements_of(settings.model));
  const float* from = start.values.data();
  size_t layer = 0;
  for (const TensorShape& tensor : tensors_of(settings.model)) {
    if (!is_predictor(tensor)) {
      values.insert(values.end(), from, from + tensor.elements());
      from += tensor.elements();
    } else if (tensor.name.ends_with("predictor_q.weight")) {
      const kv::PredictorLayer even = evened(predictor.layers[layer++], shape);
      values.insert(values.end(), even.q.begin(), even.q.end());
      values.insert(values.end(), even.k.begin(), even.k.end());
    }
  }
  start.settings = settings;
  start.values = std::move(values);
  return base::Done{};
}

base::Result<kv::Predictor> predictor_of(const Checkpoint& trained) {
  const ModelSettings& m = trained.settings.model;
  if (m.rank == 0) return fail("the checkpoint has no predictor: kvick train maple trains one");
  kv::Predictor out;
  out.shape = {.layers = static_cast<uint32_t>(m.layers),
               .heads = static_cast<uint32_t>(m.heads),
               .kv_heads = static_cast<uint32_t>(m.kv_heads),
               .head_dim = static_cast<uint32_t>(m.head_dim),
               .dim = static_cast<uint32_t>(m.dim),
               .rank = static_cast<uint32_t>(m.rank),
               .form = kv::PredictorForm::kHeads,
               .seed = 0};
  const float* from = trained.best.data();
  for (const TensorShape& tensor : tensors_of(m)) {
    const std::span<const float> part(from, tensor.elements());
    from += tensor.elements();
    if (!is_predictor(tensor)) continue;
    if (tensor.name.ends_with("predictor_q.weight"))
      out.layers.push_back({.q = {part.begin(), part.end()}, .k = {}});
    else
      out.layers.back().k.assign(part.begin(), part.end());
  }
  return out;
}

}  // namespace kvick::train
