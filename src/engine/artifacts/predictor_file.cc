#include "engine/artifacts/predictor_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "base/text_file.h"
#include "engine/artifacts/json_fields.h"
#include "io/file/model_file.h"
#include "io/gguf/ggml_types.h"
#include "io/gguf/gguf_writer.h"

namespace kvick::engine {
namespace {

using base::fail;
using base::Result;

// 2: with frequencies, for rotation by position.
constexpr uint32_t kVersion = 1, kTurningVersion = 2;
constexpr uint32_t kMost = 1 << 20;  // limit on each number of the shape
constexpr uint32_t kBlock = 32;      // codes of a Q8_0 block, which has one scale
constexpr uint32_t kBlockBytes = 34;
constexpr std::string_view kForms[] = {"random",     "trained", "heads",
                                       "components", "scores",  "retrieval"};

uint32_t padded(uint32_t inputs) { return (inputs + kBlock - 1) / kBlock * kBlock; }

// Encodes rows of `inputs` floats as Q8_0. A block's scale is a 127th of its largest magnitude.
std::string encode(const std::vector<float>& rows, uint32_t inputs) {
  std::string bytes;
  for (size_t row = 0; row < rows.size(); row += inputs)
    for (uint32_t first = 0; first < inputs; first += kBlock) {
      const uint32_t n = std::min(kBlock, inputs - first);
      float most = 0;
      for (uint32_t i = 0; i < n; ++i) most = std::max(most, std::abs(rows[row + first + i]));
      const uint16_t half = kernels::f32_to_f16(most / 127);
      const float scale = kernels::f16_to_f32(half);
      char block[kBlockBytes] = {};
      std::memcpy(block, &half, sizeof half);
      for (uint32_t i = 0; i < n && scale > 0; ++i) {
        const float code = std::nearbyint(rows[row + first + i] / scale);
        block[2 + i] = static_cast<char>(static_cast<int8_t>(std::clamp(code, -127.0F, 127.0F)));
      }
      bytes.append(block, kBlockBytes);
    }
  return bytes;
}

std::vector<float> decode(std::span<const std::byte> bytes, uint64_t rows, uint32_t inputs) {
  const uint32_t width = padded(inputs);
  std::vector<float> row(width), all;
  for (uint64_t i = 0; i < rows; ++i) {
    kernels::to_f32(kernels::DType::kQ8_0,
                    bytes.data() + size_t{i} * (width / kBlock) * kBlockBytes, width, row.data());
    all.insert(all.end(), row.begin(), row.begin() + inputs);
  }
  return all;
}

struct Named {
  std::string name;
  uint64_t rows = 0;
};
// Returns the tensors of a layer.
std::vector<Named> tensors_of(const kv::PredictorShape& shape, uint32_t layer) {
  std::vector<Named> named;
  if (shape.form == kv::PredictorForm::kRetrieval) return named;
  if (shape.has_queries())
    named.push_back(
        {fmt::format("blk.{}.predictor_q.weight", layer), uint64_t{shape.heads} * shape.rank});
  named.push_back(
      {fmt::format("blk.{}.predictor_k.weight", layer), uint64_t{shape.kv_heads} * shape.rank});
  return named;
}

// Returns the numbers of the form retrieval, [layers][kv_heads].
std::vector<float> retrieval_of(const PredictorFile& file) {
  std::vector<float> all;
  if (file.predictor.shape.form != kv::PredictorForm::kRetrieval) return all;
  for (const kv::PredictorLayer& layer : file.predictor.layers)
    all.insert(all.end(), layer.k.begin(), layer.k.end());
  return all;
}

uint32_t version_of(const PredictorFile& file) {
  return file.predictor.frequency.empty() ? kVersion : kTurningVersion;
}

std::string checksum(const PredictorFile& file, std::span<const std::string_view> tensors) {
  const kv::PredictorShape& s = file.predictor.shape;
  std::string head = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", version_of(file), form_name(s.form),
      s.layers, s.heads, s.kv_heads, s.head_dim, s.dim, s.rank, s.seed, file.model.arch,
      file.model.weights, file.text, file.tokens, file.held_out, fmt::join(file.mse, " "),
      fmt::join(file.recall, " "), fmt::join(file.mass, " "));
  for (const float f : file.predictor.frequency) head += fmt::format(" {}", f);
  for (const float f : retrieval_of(file)) head += fmt::format(" {}", f);
  uint64_t hash = fnv1a(std::as_bytes(std::span(head)));
  for (const std::string_view tensor : tensors)
    hash = fnv1a(std::as_bytes(std::span(tensor)), hash);
  return fmt::format("{:016x}", hash);
}

io::GgufMetadata metadata_of(const PredictorFile& file, std::span<const std::string_view> tensors) {
  const kv::PredictorShape& s = file.predictor.shape;
  io::GgufMetadata out;
  out.put("general.type", "predictor");
  out.put("general.architecture", file.model.arch);
  out.put("kvick.predictor.version", version_of(file));
  out.put("kvick.predictor.form", form_name(s.form));
  out.put("kvick.predictor.layers", s.layers);
  out.put("kvick.predictor.heads", s.heads);
  out.put("kvick.predictor.kv_heads", s.kv_heads);
  out.put("kvick.predictor.head_dim", s.head_dim);
  out.put("kvick.predictor.dim", s.dim);
  out.put("kvick.predictor.rank", s.rank);
  out.put("kvick.predictor.seed", s.seed);
  out.put("kvick.predictor.weights", file.model.weights);
  out.put("kvick.predictor.text", file.text);
  out.put("kvick.predictor.tokens", file.tokens);
  out.put("kvick.predictor.held_out", file.held_out);
  if (s.form == kv::PredictorForm::kRetrieval) {
    const std::vector<float> numbers = retrieval_of(file);
    out.put("kvick.predictor.retrieval", std::span<const float>(numbers));
  } else {
    out.put("kvick.predictor.mse", std::span<const float>(file.mse));
    out.put("kvick.predictor.recall", std::span<const float>(file.recall));
    out.put("kvick.predictor.mass", std::span<const float>(file.mass));
  }
  if (!file.predictor.frequency.empty())
    out.put("kvick.predictor.frequency", std::span<const float>(file.predictor.frequency));
  out.put("kvick.predictor.checksum", checksum(file, tensors));
  return out;
}

Result<uint32_t> number_in(const io::ModelFile& gguf, const char* key, uint32_t least,
                           uint32_t most) {
  const std::string name = fmt::format("kvick.predictor.{}", key);
  KVICK_TRY(const uint64_t value, gguf.get_uint(name));
  if (value < least || value > most)
    return fail("{} is {}, but it must be from {} to {}", name, value, least, most);
  return static_cast<uint32_t>(value);
}

Result<kv::PredictorShape> shape_in(const io::ModelFile& gguf) {
  kv::PredictorShape shape;
  KVICK_TRY(const std::string form, gguf.get_string("kvick.predictor.form"));
  const auto* at = std::find(std::begin(kForms), std::end(kForms), form);
  if (at == std::end(kForms))
    return fail("kvick.predictor.form is none of {}", fmt::join(kForms, ", "));
  shape.form = static_cast<kv::PredictorForm>(at - std::begin(kForms));
  KVICK_TRY(shape.layers, number_in(gguf, "layers", 1, kMost));
  KVICK_TRY(shape.heads, number_in(gguf, "heads", 1, kMost));
  KVICK_TRY(shape.kv_heads, number_in(gguf, "kv_heads", 1, kMost));
  KVICK_TRY(shape.head_dim, number_in(gguf, "head_dim", 1, kMost));
  KVICK_TRY(shape.dim, number_in(gguf, "dim", 1, kMost));
  KVICK_TRY(shape.rank, number_in(gguf, "rank", 1, shape.head_dim));
  KVICK_TRY(shape.seed, number_in(gguf, "seed", 0, UINT32_MAX));
  if (!shape.has_queries() && shape.rank != 1)
    return fail("it has {} scores for a row and not one", shape.rank);
  if (uint64_t{shape.heads} * shape.head_dim > kMost)
    return fail("{} heads of {} values are more than a model has", shape.heads, shape.head_dim);
  if (shape.heads % shape.kv_heads != 0)
    return fail("{} query heads cannot share {} KV heads", shape.heads, shape.kv_heads);
  return shape;
}

Result<std::vector<float>> list_in(const io::ModelFile& gguf, const char* key, uint64_t count) {
  const std::vector<float>* list = gguf.get_floats(fmt::format("kvick.predictor.{}", key));
  if (list == nullptr || list->size() != count)
    return fail("kvick.predictor.{} is no list of {} numbers", key, count);
  return *list;
}

bool finite(const std::vector<float>& list) {
  return std::all_of(list.begin(), list.end(), [](float x) { return std::isfinite(x); });
}

base::Status<> read_quality(const io::ModelFile& gguf, PredictorFile& file) {
  const uint32_t layers = file.predictor.shape.layers;
  KVICK_TRY(file.mse, list_in(gguf, "mse", layers));
  KVICK_TRY(file.recall, list_in(gguf, "recall", layers));
  KVICK_TRY(file.mass, list_in(gguf, "mass", layers));
  return base::Done{};
}

base::Status<> read_retrieval(const io::ModelFile& gguf, PredictorFile& file) {
  const kv::PredictorShape& shape = file.predictor.shape;
  KVICK_TRY(const std::vector<float> all,
            list_in(gguf, "retrieval", uint64_t{shape.layers} * shape.kv_heads));
  // Written so that NaN is refused too.
  if (!std::all_of(all.begin(), all.end(), [](float x) { return x >= 0 && x <= 1; }))
    return fail("kvick.predictor.retrieval holds numbers that are not from 0 to 1");
  for (auto from = all.begin(); from != all.end(); from += shape.kv_heads)
    file.predictor.layers.push_back({.q = {}, .k = {from, from + shape.kv_heads}});
  return base::Done{};
}

Result<std::vector<float>> frequency_in(const io::ModelFile& gguf,
                                        const kv::PredictorShape& shape) {
  if (!shape.from_input())
    return fail(
        "it rotates predictions by position, but a predictor of the form {} has positions already",
        form_name(shape.form));
  if (shape.rank % 2 != 0)
    return fail("it turns pairs of values by positions, and a rank of {} is odd", shape.rank);
  KVICK_TRY(std::vector<float> frequency, list_in(gguf, "frequency", shape.rank / 2));
  if (!finite(frequency))
    return fail("kvick.predictor.frequency holds numbers that are not finite");
  return frequency;
}

// Returns the tensors' data: for each layer in turn q, if there is one, and k.
Result<std::vector<std::string_view>> tensors_in(const io::ModelFile& gguf,
                                                 const kv::PredictorShape& shape) {
  const size_t of_layer = tensors_of(shape, 0).size();
  if (gguf.tensors().size() != of_layer * shape.layers)
    return fail("it has {} tensors and not {} for each of {} layers", gguf.tensors().size(),
                of_layer, shape.layers);
  std::vector<std::string_view> data;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (const Named& named : tensors_of(shape, layer)) {
      const io::Tensor* tensor = gguf.find(named.name);
      const std::vector<uint64_t> wanted = {named.rows, padded(shape.inputs())};
      if (tensor == nullptr || tensor->dtype != kernels::DType::kQ8_0 || tensor->shape != wanted)
        return fail("{} is missing, or not {} x {} of type Q8_0", named.name, wanted[0], wanted[1]);
      data.emplace_back(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
    }
  return data;
}

base::Status<> check_kind(const io::ModelFile& gguf) {
  KVICK_TRY(const std::string type, gguf.get_string("general.type", ""));
  if (type != "predictor")
    return fail("it is not a predictor file; kvick train distil, pca, kvzap and duo make one");
  KVICK_TRY(const uint64_t version, gguf.get_uint("kvick.predictor.version"));
  if (version != kVersion && version != kTurningVersion)
    return fail("it is of version {}, not {} or {}: take a newer kvick, or train it again", version,
                kVersion, kTurningVersion);
  return base::Done{};
}

Result<PredictorFile> file_of(const io::ModelFile& gguf) {
  KVICK_TRY_VOID(check_kind(gguf));
  KVICK_TRY(const uint64_t version, gguf.get_uint("kvick.predictor.version"));
  PredictorFile file;
  KVICK_TRY(file.predictor.shape, shape_in(gguf));
  const kv::PredictorShape& shape = file.predictor.shape;
  file.model = {.layers = shape.layers, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim};
  KVICK_TRY(file.model.arch, gguf.get_string("general.architecture"));
  KVICK_TRY(file.model.weights, gguf.get_string("kvick.predictor.weights"));
  KVICK_TRY(file.text, gguf.get_string("kvick.predictor.text"));
  KVICK_TRY(file.tokens, number_in(gguf, "tokens", 0, UINT32_MAX));
  KVICK_TRY(file.held_out, number_in(gguf, "held_out", 0, UINT32_MAX));
  if (shape.form == kv::PredictorForm::kRetrieval)
    KVICK_TRY_VOID(read_retrieval(gguf, file));
  else
    KVICK_TRY_VOID(read_quality(gguf, file));
  if (version == kTurningVersion) {
    KVICK_TRY(file.predictor.frequency, frequency_in(gguf, shape));
  }
  KVICK_TRY(const std::vector<std::string_view> tensors, tensors_in(gguf, shape));
  KVICK_TRY(const std::string sum, gguf.get_string("kvick.predictor.checksum"));
  if (sum != checksum(file, tensors)) return fail("its checksum is wrong: it is damaged");
  for (size_t i = 0; i < tensors.size();) {
    const auto matrix = [&](uint32_t heads) {
      return decode(std::as_bytes(std::span(tensors[i++])), uint64_t{heads} * shape.rank,
                    shape.inputs());
    };
    kv::PredictorLayer& layer = file.predictor.layers.emplace_back();
    if (shape.has_queries()) layer.q = matrix(shape.heads);
    layer.k = matrix(shape.kv_heads);
    if (!finite(layer.q) || !finite(layer.k))
      return fail("layer {} has weights that are not finite numbers",
                  file.predictor.layers.size() - 1);
  }
  return file;
}

// Returns an error of a file with its path, which errors of its container have already.
std::string with_path(const std::string& path, const std::string& message) {
  return message.starts_with(path + ":") ? message : fmt::format("{}: {}", path, message);
}

// Returns the command that makes a predictor of the form.
const char* command_of(kv::PredictorForm form) {
  if (form == kv::PredictorForm::kScores) return "kvick train kvzap";
  if (form == kv::PredictorForm::kRetrieval) return "kvick train duo";
  return form == kv::PredictorForm::kComponents ? "kvick train pca" : "kvick train distil";
}

}  // namespace

std::string_view form_name(kv::PredictorForm form) { return kForms[static_cast<size_t>(form)]; }

std::vector<kv::PredictorLayer> rounded(const kv::Predictor& predictor) {
  const kv::PredictorShape& shape = predictor.shape;
  const auto matrix = [&](const std::vector<float>& w, uint32_t heads) {
    const std::string bytes = encode(w, shape.inputs());
    return decode(std::as_bytes(std::span(bytes)), heads * shape.rank, shape.inputs());
  };
  std::vector<kv::PredictorLayer> layers;
  for (const kv::PredictorLayer& layer : predictor.layers)
    layers.push_back(
        {.q = shape.has_queries() ? matrix(layer.q, shape.heads) : std::vector<float>(),
         .k = matrix(layer.k, shape.kv_heads)});
  return layers;
}

std::string predictor_bytes(const PredictorFile& file) {
  const kv::PredictorShape& shape = file.predictor.shape;
  std::vector<std::string> data;
  std::vector<io::GgufTensor> tensors;
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const auto named = tensors_of(shape, layer);
    const kv::PredictorLayer& from = file.predictor.layers[layer];
    for (size_t i = 0; i < named.size(); ++i) {
      data.push_back(encode(i + 1 < named.size() ? from.q : from.k, shape.inputs()));
      tensors.push_back({.name = named[i].name,
                         .shape = {named[i].rows, padded(shape.inputs())},
                         .type = io::ggml_of_dtype(kernels::DType::kQ8_0),
                         .bytes = data.back().size()});
    }
  }
  const std::vector<std::string_view> views(data.begin(), data.end());
  std::string bytes = io::gguf_header(metadata_of(file, views), tensors);
  const auto pad = [&] {
    bytes.resize((bytes.size() + io::kGgufAlignment - 1) / io::kGgufAlignment * io::kGgufAlignment);
  };
  for (const std::string& tensor : data) {
    pad();
    bytes += tensor;
  }
  pad();
  return bytes;
}

Result<PredictorFile> parse_predictor(std::span<const std::byte> image) {
  auto gguf = io::ModelFile::parse_gguf(image, "it");
  if (!gguf.ok()) return fail("it is no predictor, or damaged ({})", gguf.error().message);
  return file_of(*gguf);
}

base::Status<> write_predictor(const std::string& path, const PredictorFile& file) {
  return base::write_file(path, predictor_bytes(file));
}

Result<std::shared_ptr<const kv::Predictor>> read_predictor(const std::string& path,
                                                            const ModelIdentity& model,
                                                            const model::Config& config) {
  const auto gguf = io::ModelFile::open_for_inspection(path);
  if (!gguf.ok())
    return fail("{} (a predictor is a file that kvick train distil, pca, kvzap or duo makes)",
                gguf.error().message);
  if (const auto good = check_kind(*gguf); !good.ok())
    return fail("{}", with_path(path, good.error().message));
  auto file = file_of(*gguf);
  if (!file.ok())
    return fail("{}; copy the file again, or train it again",
                with_path(path, file.error().message));
  kv::Predictor& predictor = file->predictor;
  const char* const command = command_of(predictor.shape.form);
  KVICK_TRY_VOID(check_identity(path, file->model, model, command));
  if (predictor.shape.dim != config.dim || predictor.shape.heads != config.heads_layer().heads)
    return fail(
        "{} is for another model: inputs of {} values and {} query heads; this one has {} and {}: "
        "make its own with {}",
        path, predictor.shape.dim, predictor.shape.heads, config.dim, config.heads_layer().heads,
        command);
  if (predictor.shape.form == kv::PredictorForm::kRandom)
    predictor.projection = {config.dim, predictor.shape.projected(), predictor.shape.seed};
  return std::shared_ptr<const kv::Predictor>(
      std::make_shared<kv::Predictor>(std::move(predictor)));
}

}  // namespace kvick::engine
