#include "engine/artifacts/predictor_file.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/text_file.h"
#include "engine/artifacts/json_fields.h"
#include "engine/artifacts/predictor_tensors.h"
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
constexpr std::string_view kForms[] = {"random", "trained",   "heads",   "components",
                                       "scores", "retrieval", "document"};

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
  hash = fnv1a(std::as_bytes(std::span(file.predictor.document)), hash);
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
  } else if (s.form == kv::PredictorForm::kDocument) {
    out.put("kvick.predictor.document", std::span<const int32_t>(file.predictor.document));
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
  if (shape.form == kv::PredictorForm::kDocument) {
    KVICK_TRY(shape.tokens, number_in(gguf, "tokens", 1, kMost));
  }
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

// Whether all numbers are from 0 to 1; NaN is not.
bool shares(const std::vector<float>& list) {
  return std::all_of(list.begin(), list.end(), [](float x) { return x >= 0 && x <= 1; });
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
  if (!shares(all)) return fail("kvick.predictor.retrieval holds numbers that are not from 0 to 1");
  for (auto from = all.begin(); from != all.end(); from += shape.kv_heads)
    file.predictor.layers.push_back({.q = {}, .k = {from, from + shape.kv_heads}});
  return base::Done{};
}

base::Status<> read_document(const io::ModelFile& gguf, kv::Predictor& predictor) {
  const std::vector<int64_t>* const tokens = gguf.get_ints("kvick.predictor.document");
  if (tokens == nullptr || tokens->size() != predictor.shape.tokens)
    return fail("kvick.predictor.document is no list of {} tokens", predictor.shape.tokens);
  for (const int64_t token : *tokens) {
    if (token < 0 || token > INT32_MAX)
      return fail("kvick.predictor.document holds {}, which is no token", token);
    predictor.document.push_back(static_cast<int32_t>(token));
  }
  return base::Done{};
}

// Reads what a form has beside its tensors.
base::Status<> read_lists(const io::ModelFile& gguf, PredictorFile& file) {
  switch (file.predictor.shape.form) {
    case kv::PredictorForm::kRetrieval:
      return read_retrieval(gguf, file);
    case kv::PredictorForm::kDocument:
      return read_document(gguf, file.predictor);
    default:
      return read_quality(gguf, file);
  }
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
    for (const PredictorTensor& named : tensors_of(shape, layer)) {
      const io::Tensor* tensor = gguf.find(named.name);
      const std::vector<uint64_t> wanted = {named.rows, stored_inputs(shape)};
      const kernels::DType type = stored_type(shape);
      if (tensor == nullptr || tensor->dtype != type || tensor->shape != wanted)
        return fail("{} is missing, or not {} x {} of type {}", named.name, wanted[0], wanted[1],
                    kernels::dtype_info(type).name);
      data.emplace_back(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
    }
  return data;
}

base::Status<> check_kind(const io::ModelFile& gguf) {
  KVICK_TRY(const std::string type, gguf.get_string("general.type", ""));
  if (type != "predictor")
    return fail(
        "it is not a predictor file; kvick train distil, pca, kvzap, duo and kvzip make one");
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
  KVICK_TRY_VOID(read_lists(gguf, file));
  if (version == kTurningVersion) {
    KVICK_TRY(file.predictor.frequency, frequency_in(gguf, shape));
  }
  KVICK_TRY(const std::vector<std::string_view> tensors, tensors_in(gguf, shape));
  KVICK_TRY(const std::string sum, gguf.get_string("kvick.predictor.checksum"));
  if (sum != checksum(file, tensors)) return fail("its checksum is wrong: it is damaged");
  for (size_t i = 0; i < tensors.size();) {
    const auto matrix = [&](uint32_t heads) {
      return decode_rows(std::as_bytes(std::span(tensors[i++])), uint64_t{heads} * shape.rank,
                         shape);
    };
    kv::PredictorLayer& layer = file.predictor.layers.emplace_back();
    if (shape.has_queries()) layer.q = matrix(shape.heads);
    layer.k = matrix(shape.kv_heads);
    if (!finite(layer.q) || !finite(layer.k))
      return fail("layer {} has weights that are not finite numbers",
                  file.predictor.layers.size() - 1);
    if (shape.form == kv::PredictorForm::kDocument && !shares(layer.k))
      return fail("layer {} has scores that are not from 0 to 1", file.predictor.layers.size() - 1);
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
  if (form == kv::PredictorForm::kDocument) return "kvick train kvzip";
  return form == kv::PredictorForm::kComponents ? "kvick train pca" : "kvick train distil";
}

}  // namespace

std::string_view form_name(kv::PredictorForm form) { return kForms[static_cast<size_t>(form)]; }

std::vector<kv::PredictorLayer> rounded(const kv::Predictor& predictor) {
  const kv::PredictorShape& shape = predictor.shape;
  const auto matrix = [&](const std::vector<float>& w, uint32_t heads) {
    const std::string bytes = encode_rows(w, shape);
    return decode_rows(std::as_bytes(std::span(bytes)), heads * shape.rank, shape);
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
      data.push_back(encode_rows(i + 1 < named.size() ? from.q : from.k, shape));
      tensors.push_back({.name = named[i].name,
                         .shape = {named[i].rows, stored_inputs(shape)},
                         .type = io::ggml_of_dtype(stored_type(shape)),
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
    return fail(
        "{} (a predictor is a file that kvick train distil, pca, kvzap, duo or kvzip makes)",
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
