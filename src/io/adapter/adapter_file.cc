#include "io/adapter/adapter_file.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "base/function_ref.h"
#include "base/memory.h"
#include "io/file/builder.h"
#include "io/safetensors/json.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxRank = 4096;  // published adapters have 8 to 512
constexpr std::string_view kPeftConfig = "adapter_config.json";
constexpr std::string_view kPeftTensors = "adapter_model.safetensors";

// Which half of which pair a tensor is.
struct Half {
  std::string matrix;
  bool b = false;
};
using HalfOf = base::FunctionRef<base::Result<Half>(const Tensor& tensor)>;

base::Status<> check_pair(const AdapterPair& pair, const std::string& path) {
  for (const Tensor* half : {&pair.a, &pair.b})
    if (half->shape.size() != 2)
      return base::fail("{}: tensor {} is no matrix, as each half of an adapter must be", path,
                        in_quotes(half->name));
  const uint64_t rank = pair.a.shape[0];
  if (rank != pair.b.shape[1])
    return base::fail("{}: the halves of {} are of rank {} and {}, and must be of one", path,
                      in_quotes(pair.matrix), rank, pair.b.shape[1]);
  if (rank < 1 || rank > kMaxRank)
    return base::fail("{}: {} is adapted by rank {}; 1 to {} are taken", path,
                      in_quotes(pair.matrix), rank, kMaxRank);
  return base::Done{};
}

base::Result<std::vector<AdapterPair>> pairs_of(const ModelFile& file, HalfOf half_of) {
  std::map<std::string, std::array<const Tensor*, 2>> halves;
  for (const Tensor& tensor : file.tensors()) {
    KVICK_TRY(const Half half, half_of(tensor));
    const Tensor*& place = halves[half.matrix][half.b ? 1 : 0];
    if (place != nullptr)
      return base::fail("{}: {} and {} are the same half of one pair", file.path(),
                        in_quotes(place->name), in_quotes(tensor.name));
    place = &tensor;
  }
  if (halves.empty()) return base::fail("{}: the adapter has no tensors", file.path());
  std::vector<AdapterPair> pairs;
  for (const auto& [matrix, half] : halves) {
    if (half[0] == nullptr || half[1] == nullptr)
      return base::fail("{}: {} has one half of a pair, and the other is missing", file.path(),
                        in_quotes(matrix));
    pairs.push_back({.matrix = matrix, .a = *half[0], .b = *half[1]});
    KVICK_TRY_VOID(check_pair(pairs.back(), file.path()));
  }
  return pairs;
}

base::Result<Half> gguf_half(const Tensor& tensor, const std::string& path) {
  constexpr std::string_view kA = ".lora_a", kB = ".lora_b";
  const std::string& name = tensor.name;
  const bool b = name.ends_with(kB);
  if (!b && !name.ends_with(kA))
    return base::fail("{}: tensor {} is no half of a low-rank pair (NAME{}, NAME{})", path,
                      in_quotes(name), kA, kB);
  return Half{name.substr(0, name.size() - kA.size()), b};
}

base::Status<> require_text(const ModelFile& file, std::string_view key, std::string_view wanted) {
  KVICK_TRY(const std::string value, file.get_string(key, ""));
  if (value == wanted) return base::Done{};
  return base::fail("{}: {} is {}, and that of a low-rank adapter is {}: give models with -m",
                    file.path(), key, in_quotes(value), in_quotes(wanted));
}

// ---- PEFT ----

struct Module {
  std::string_view name, matrix;
};
constexpr Module kModules[] = {
    {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

bool drop_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool drop_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Returns the matrix of a PEFT module: "base_model.model.model.layers.0.self_attn.q_proj" ->
// "blk.0.attn_q.weight".
std::optional<std::string> matrix_of(std::string_view module) {
  drop_prefix(module, "base_model.model.");
  // In models for images or sound, the decoder is model.language_model or, in older files,
  // language_model.model.
  for (const char* outer : {"model.", "language_model.", "model."}) drop_prefix(module, outer);
  if (!drop_prefix(module, "layers.")) return std::nullopt;
  uint32_t layer = 0;
  const char* const last = module.data() + module.size();
  const auto [end, error] = std::from_chars(module.data(), last, layer);
  if (error != std::errc()) return std::nullopt;
  module.remove_prefix(static_cast<size_t>(end - module.data()));
  if (!drop_prefix(module, ".")) return std::nullopt;
  for (const auto& [name, matrix] : kModules)
    if (name == module) return fmt::format("blk.{}.{}.weight", layer, matrix);
  return std::nullopt;
}

base::Result<Half> peft_half(const Tensor& tensor, const std::string& path) {
  std::string_view module = tensor.name;
  const bool b = drop_suffix(module, ".lora_B.weight");
  const bool is_half = b || drop_suffix(module, ".lora_A.weight");
  const auto matrix = is_half ? matrix_of(module) : std::nullopt;
  if (matrix) return Half{*matrix, b};
  return base::fail(
      "{}: tensor {} adapts what kvick does not: it adapts the matrices q_proj, k_proj, v_proj, "
      "o_proj, gate_proj, up_proj and down_proj of layers without experts",
      path, in_quotes(tensor.name));
}

bool holds_any(const Json& value) {
  if (value.is_null()) return false;
  if (simdjson::dom::array list; value.get(list) == simdjson::SUCCESS) return list.size() > 0;
  if (simdjson::dom::object fields; value.get(fields) == simdjson::SUCCESS)
    return fields.size() > 0;
  return true;
}

// Refuses adapters that began as a part of the model's weights (PiSSA, Meng et al. 2024, and
// similar). That part was subtracted from the model, so the adapter fits only the remainder. PEFT
// writes true here after it has converted such an adapter to a plain one.
base::Status<> check_start(const JsonObject& config) {
  const auto value = config.find("init_lora_weights");
  std::string_view start;
  if (!value || value->get(start) != simdjson::SUCCESS) return base::Done{};
  for (const std::string_view name : {"pissa", "olora", "corda"})
    if (start.starts_with(name))
      return base::fail(
          "{} is {}: such an adapter does not fit the model, but what is left of it; save it with "
          "PEFT's path_initial_model_for_weight_conversion",
          config.label("init_lora_weights"), in_quotes(std::string(start)));
  return base::Done{};
}

base::Status<> check_peft(const JsonObject& config) {
  KVICK_TRY(const std::string type, config.get_string("peft_type", "LORA"));
  if (type != "LORA")
    return base::fail("{} is {}; kvick computes LORA alone", config.label("peft_type"),
                      in_quotes(type));
  for (const char* field : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"}) {
    KVICK_TRY(const bool on, config.get_bool(field, false));
    if (on)
      return base::fail(
          "{} is true, which kvick does not compute: merge the adapter into the "
          "model instead",
          config.label(field));
  }
  for (const char* field :
       {"modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication",
        "trainable_token_indices", "target_parameters", "alora_invocation_tokens"})
    if (const auto value = config.find(field); value && holds_any(*value))
      return base::fail(
          "{} is set, which kvick does not compute: merge the adapter into the "
          "model instead",
          config.label(field));
  KVICK_TRY_VOID(check_start(config));
  KVICK_TRY(const std::string bias, config.get_string("bias", "none"));
  if (bias == "none") return base::Done{};
  return base::fail("{} is {}; kvick adapts matrices and no biases", config.label("bias"),
                    in_quotes(bias));
}

base::Result<AdapterFile> open_peft(const std::string& folder) {
  const fs::path path(folder);
  const std::string config_name = (path / kPeftConfig).string();
  std::error_code none;
  if (!fs::exists(path / kPeftTensors, none))
    return base::fail(
        "{}: the folder has no {}, which kvick reads adapters of{}", folder, kPeftTensors,
        fs::exists(path / "adapter_model.bin", none) ? ": save adapter_model.bin as safetensors"
                                                     : "");
  KVICK_TRY(const base::MappedFile config, base::MappedFile::open(config_name));
  const auto bytes = config.bytes();
  KVICK_TRY(ModelFile file, ModelFile::open_for_inspection((path / kPeftTensors).string()));
  return read_peft_adapter(
      std::move(file), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, config_name);
}

}  // namespace

base::Result<AdapterFile> read_gguf_adapter(ModelFile file) {
  KVICK_TRY_VOID(require_text(file, "general.type", "adapter"));
  KVICK_TRY_VOID(require_text(file, "adapter.type", "lora"));
  // Activated LoRA adapts only the tokens that follow the invocation tokens.
  if (file.metadata().contains("adapter.alora.invocation_tokens"))
    return base::fail(
        "{}: adapter.alora.invocation_tokens is set, which kvick does not compute: merge the "
        "adapter into the model instead",
        file.path());
  AdapterFile adapter;
  adapter.path = file.path();
  KVICK_TRY(adapter.architecture, file.get_string("general.architecture", ""));
  KVICK_TRY(const double alpha, file.get_float("adapter.lora.alpha", 0));
  if (!std::isfinite(static_cast<float>(alpha)))
    return base::fail("{}: adapter.lora.alpha is {}, and must be a number", file.path(), alpha);
  const auto half_of = [&](const Tensor& tensor) { return gguf_half(tensor, file.path()); };
  KVICK_TRY(adapter.pairs, pairs_of(file, half_of));
  // Without an alpha, the factor is 1, as in llama.cpp.
  for (AdapterPair& pair : adapter.pairs)
    if (alpha != 0) pair.factor = static_cast<float>(alpha / static_cast<double>(pair.a.shape[0]));
  adapter.file = std::move(file);
  return adapter;
}

base::Result<AdapterFile> read_peft_adapter(ModelFile file, std::string_view config,
                                            const std::string& config_name) {
  KVICK_TRY(const JsonDocument document, JsonDocument::parse(config, config_name, kMaxConfigBytes));
  KVICK_TRY(const JsonObject fields, JsonObject::from(document.root(), config_name));
  KVICK_TRY_VOID(check_peft(fields));
  KVICK_TRY(const uint64_t rank, fields.get_uint("r"));
  KVICK_TRY(const double alpha, fields.get_float("lora_alpha"));
  KVICK_TRY(const bool by_root, fields.get_bool("use_rslora", false));
  AdapterFile adapter;
  adapter.path = file.path();
  const auto half_of = [&](const Tensor& tensor) { return peft_half(tensor, file.path()); };
  KVICK_TRY(adapter.pairs, pairs_of(file, half_of));
  for (AdapterPair& pair : adapter.pairs) {
    if (pair.a.shape[0] != rank)
      return base::fail("{}: {} is of rank {}, but {} is {}", file.path(), in_quotes(pair.a.name),
                        pair.a.shape[0], fields.label("r"), rank);
    const auto of_rank = static_cast<double>(rank);
    pair.factor = static_cast<float>(alpha / (by_root ? std::sqrt(of_rank) : of_rank));
    if (!std::isfinite(pair.factor))
      return base::fail("{} is {}, which is no factor", fields.label("lora_alpha"), alpha);
  }
  adapter.file = std::move(file);
  return adapter;
}

base::Result<AdapterFile> open_adapter(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return base::fail("{}: there is no such adapter", path);
  if (fs::is_directory(path, none)) {
    KVICK_TRY(AdapterFile adapter, open_peft(path));
    adapter.path = path;
    return adapter;
  }
  KVICK_TRY(ModelFile file, ModelFile::open_for_inspection(path));
  if (file.container() != Container::kGguf)
    return base::fail("{}: give the adapter's folder, with {} in it", path, kPeftConfig);
  return read_gguf_adapter(std::move(file));
}

}  // namespace kvick::io
