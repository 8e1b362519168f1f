// Reads a folder in the form that Hugging Face's transformers writes.

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/families/hf_families.h"
#include "io/file/builder.h"
#include "io/huggingface/hf_config.h"
#include "io/huggingface/hf_modules.h"
#include "io/huggingface/hf_names.h"
#include "io/huggingface/hf_sampling.h"
#include "io/huggingface/hf_tokenizer.h"
#include "io/quantised/join.h"
#include "io/quantised/scheme.h"
#include "io/safetensors/json.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 64 << 20;
constexpr std::string_view kSingle = "model.safetensors", kIndex = "model.safetensors.index.json";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// A file of the folder as text; empty if it does not exist.
class TextFile {
 public:
  static base::Result<TextFile> open(const fs::path& folder, std::string_view name) {
    TextFile file;
    const fs::path path = folder / name;
    file.name_ = path.string();
    if (is_there(path)) {
      KVICK_TRY(file.mapped_, base::MappedFile::open(file.name_));
    }
    return file;
  }
  NamedText get() const {
    const auto bytes = mapped_.bytes();
    return {name_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }

 private:
  std::string name_;
  base::MappedFile mapped_;
};

struct Shard {
  std::string path;
  std::map<std::string, bool> wanted;  // tensors that the index places here; true once found
  bool checked = false;                // whether its tensors were compared with `wanted`
};

// Returns the shards that the index names, with the names of their tensors.
base::Result<std::vector<Shard>> read_index(const fs::path& folder) {
  KVICK_TRY(const TextFile file, TextFile::open(folder, kIndex));
  const NamedText index = file.get();
  KVICK_TRY(const JsonDocument document,
            JsonDocument::parse(index.text, index.name, kMaxConfigBytes));
  KVICK_TRY(const JsonObject root, JsonObject::from(document.root(), index.name));
  KVICK_TRY(const JsonObject weights, root.get_object("weight_map"));
  std::map<std::string, Shard, std::less<>> shards;
  for (const auto& [tensor, where] : weights.fields()) {
    std::string_view name;
    if (where.get(name) != simdjson::SUCCESS || name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string_view::npos)
      return base::fail("{} must be the name of a file in the folder", weights.label(tensor));
    Shard& shard = shards[std::string(name)];
    shard.path = (folder / name).string();
    shard.checked = true;
    if (!shard.wanted.emplace(tensor, false).second)
      return base::fail("{} is given twice", weights.label(tensor));
  }
  std::vector<Shard> out;
  out.reserve(shards.size());
  for (auto& [name, shard] : shards) out.push_back(std::move(shard));
  return out;
}

base::Result<std::vector<Shard>> find_shards(const fs::path& folder) {
  if (is_there(folder / kSingle)) return std::vector<Shard>{{.path = (folder / kSingle).string()}};
  if (is_there(folder / kIndex)) return read_index(folder);
  return base::fail(
      "{}: holds neither {} nor {}{}", folder.string(), kSingle, kIndex,
      is_there(folder / "pytorch_model.bin") || is_there(folder / "pytorch_model.bin.index.json")
          ? ": kvick does not read pytorch_model.bin; save the model as safetensors"
          : "");
}

base::Status<> check_place(const StoredTensor& tensor, Shard& shard) {
  if (!shard.checked) return base::Done{};
  const auto at = shard.wanted.find(tensor.name);
  if (at == shard.wanted.end()) return base::fail("{} is not where {} says", tensor.label, kIndex);
  at->second = true;
  return base::Done{};
}

base::Status<> read_shard(Shard& shard, std::vector<StoredTensor>& stored,
                          ModelFileBuilder& builder) {
  KVICK_TRY(base::MappedFile mapped, base::MappedFile::open(shard.path));
  KVICK_TRY(Safetensors parsed, parse_safetensors_image(mapped.bytes(), shard.path));
  for (StoredTensor& tensor : parsed.tensors) {
    KVICK_TRY_VOID(check_place(tensor, shard));
    stored.push_back(std::move(tensor));
  }
  for (const auto& [name, found] : shard.wanted)
    if (!found)
      return base::fail("{}: lacks the tensor {}, which {} places there", shard.path,
                        in_quotes(name), kIndex);
  builder.add_file_bytes(mapped.bytes().size());
  builder.hold(std::move(mapped));
  return base::Done{};
}

// Removes the middle dimension of a depthwise convolution: [channels][1][kernel].
void drop_channels_of_one(Tensor& tensor) {
  if (tensor.shape.size() == 3 && tensor.shape[1] == 1)
    tensor.shape.erase(tensor.shape.begin() + 1);
}

// Returns whether a tensor belongs to the part for images or sound, or is an encoder's buffer:
// these may have types that kvick does not read. Must agree with map_tensor_name.
bool is_of_other_part(const HfConfig& config, std::string_view name) {
  if (!config.outer.empty() && name.ends_with("embeddings.position_ids")) return true;
  return config.nested && !name.starts_with("model.language_model.") &&
         !name.starts_with("language_model.") && !name.starts_with("lm_head.");
}

// Multiplies the weights of the modules that have factors in the config.
base::Result<Tensor> scaled(const HfConfig& config, Tensor tensor, const std::string& label) {
  for (const ModuleFactors& own : config.factors)
    if (tensor.name.ends_with(fmt::format(".{}.weight", own.module)))
      return scaled_rows(std::move(tensor), own.rows, label);
  return tensor;
}

// Gives the matrices of HfFamily::flat_experts, [experts * inner][outer], a dimension for the
// experts. Returns the second ones, [experts][outer][inner], which it removes from `stored`.
base::Result<std::vector<JoinedTensor>> take_flat_experts(const HfConfig& config,
                                                          std::vector<StoredTensor>& stored) {
  const auto is_second = [&](const StoredTensor& tensor) {
    return config.flat_experts > 0 && tensor.name.ends_with(".experts.mlp.w2");
  };
  std::vector<JoinedTensor> taken;
  for (StoredTensor& tensor : stored) {
    const bool first = config.flat_experts > 0 && tensor.name.ends_with(".experts.mlp.w1");
    if (!first && !is_second(tensor)) continue;
    if (tensor.shape.size() != 2 || tensor.shape[0] % config.flat_experts != 0)
      return base::fail("{}: must be a matrix with as many rows for each of the {} experts",
                        tensor.label, config.flat_experts);
    tensor.shape[0] /= config.flat_experts;
    tensor.shape.insert(tensor.shape.begin(), config.flat_experts);
    if (first) continue;
    const Outputs all = {0, 1, tensor.shape[2]};
    KVICK_TRY(Tensor turned, turned_experts(tensor.name, tensor, all));
    taken.push_back({std::move(turned), tensor.label});
  }
  std::erase_if(stored, is_second);
  return taken;
}

// Removes the rows of the table of positions that are for none.
base::Status<> drop_padded_positions(const HfConfig& config, const std::string& label,
                                     Tensor& tensor) {
  const uint64_t rows = config.padded_positions;
  if (rows == 0 || tensor.name != "position_embd.weight") return base::Done{};
  if (tensor.source != nullptr || tensor.shape.size() != 2 || tensor.shape[0] <= rows)
    return base::fail("{}: must be a plain matrix of more than {} rows", label, rows);
  tensor.data = tensor.data.subspan(rows * tensor.row_bytes());
  tensor.shape[0] -= rows;
  return base::Done{};
}

// Splits a matrix whose first half is the up-projection and whose second half is the gate. GGUF
// has two matrices, or the gate first in one.
base::Result<std::vector<Tensor>> split_up_gate(Tensor both, const std::string& label) {
  if (both.source != nullptr || both.shape.size() != 2 || both.shape[0] % 2 != 0)
    return base::fail("{}: must be a plain matrix of as many rows for the gate as for the rest",
                      label);
  constexpr std::string_view kBoth = "up_gate.weight";
  Tensor up = both, gate = std::move(both);
  up.shape[0] /= 2;
  gate.shape[0] /= 2;
  up.name.replace(up.name.size() - kBoth.size(), kBoth.size(), "up.weight");
  gate.name.replace(gate.name.size() - kBoth.size(), kBoth.size(), "gate.weight");
  up.data = up.data.first(up.bytes());
  gate.data = gate.data.subspan(up.bytes());
  return std::vector<Tensor>{std::move(up), std::move(gate)};
}

// The parts of one quantised tensor may be in several shards, so they are joined after all are
// read.
base::Status<> read_shards(std::vector<Shard>& shards, const Scheme& scheme, const HfConfig& config,
                           ModelFileBuilder& builder) {
  std::vector<StoredTensor> stored;
  for (Shard& shard : shards) KVICK_TRY_VOID(read_shard(shard, stored, builder));
  std::erase_if(stored,
                [&](const StoredTensor& tensor) { return is_of_other_part(config, tensor.name); });
  KVICK_TRY(std::vector<JoinedTensor> experts, take_flat_experts(config, stored));
  KVICK_TRY(std::vector<JoinedTensor> joined, join_tensors(scheme, config.gate_up, stored));
  std::move(experts.begin(), experts.end(), std::back_inserter(joined));
  for (auto& [tensor, label] : joined) {
    KVICK_TRY(const auto mapped, map_tensor_name(config, tensor.name, label));
    if (!mapped) continue;
    tensor.name = *mapped;
    if (tensor.name.ends_with("conv1d.weight") || tensor.name.ends_with("shortconv.conv.weight"))
      drop_channels_of_one(tensor);
    // GGUF has [groups][inner / groups].
    if (tensor.name.ends_with("ssm_norm.weight") && tensor.shape.size() == 1 &&
        config.state_groups > 1 && tensor.shape[0] % config.state_groups == 0)
      tensor.shape = {config.state_groups, tensor.shape[0] / config.state_groups};
    // ERNIE 4.5 has [1][experts].
    if (tensor.name.ends_with("exp_probs_b.bias") && tensor.shape.size() == 2 &&
        tensor.shape[0] == 1)
      tensor.shape.erase(tensor.shape.begin());
    if (tensor.name.ends_with(".ffn_up_gate.weight")) {
      KVICK_TRY(std::vector<Tensor> halves, split_up_gate(std::move(tensor), label));
      for (Tensor& half : halves) KVICK_TRY_VOID(builder.add_tensor(std::move(half)));
      continue;
    }
    KVICK_TRY_VOID(drop_padded_positions(config, label, tensor));
    KVICK_TRY(tensor, scaled(config, std::move(tensor), label));
    KVICK_TRY_VOID(builder.add_tensor(std::move(tensor)));
  }
  return base::Done{};
}

// Checks what names alone do not show. The model checks the sizes of all other tensors.
base::Status<> check_embedding(const ModelFile& file, const HfConfig& config) {
  const Tensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr)
    return base::fail("{}: has no tensor 'embed_tokens.weight'", file.path());
  if (embedding->shape.size() != 2 || embedding->shape[0] != config.vocabulary)
    return base::fail("{}: 'embed_tokens.weight' must have the {} rows of vocab_size", file.path(),
                      config.vocabulary);
  if (!config.tied && file.find("output.weight") == nullptr)
    return base::fail(
        "{}: has no tensor 'lm_head.weight', and 'tie_word_embeddings' is false: it was saved "
        "without its output matrix (as AutoModel, not AutoModelForCausalLM) and cannot generate "
        "text; for embeddings use a GGUF file of this model",
        file.path());
  return base::Done{};
}

base::Status<> add_tokenizer(const fs::path& folder, const HfConfig& config,
                             const JsonObject& config_json, Metadata& out) {
  KVICK_TRY(const TextFile tokenizer, TextFile::open(folder, "tokenizer.json"));
  if (tokenizer.get().text.empty()) return base::Done{};  // weights can be used without a tokenizer
  KVICK_TRY(const TextFile tokenizer_config, TextFile::open(folder, "tokenizer_config.json"));
  KVICK_TRY(const TextFile generation, TextFile::open(folder, "generation_config.json"));
  KVICK_TRY(const TextFile chat, TextFile::open(folder, "chat_template.jinja"));
  KVICK_TRY(const TextFile processor, TextFile::open(folder, "chat_template.json"));
  KVICK_TRY_VOID(map_tokenizer(
      {tokenizer.get(), tokenizer_config.get(), generation.get(), chat.get(), processor.get()},
      config, config_json, out));
  // transformers has templates with names of their own there.
  KVICK_TRY(const TextFile tools,
            TextFile::open(folder / "additional_chat_templates", "tool_use.jinja"));
  if (!tools.get().text.empty())
    out["tokenizer.chat_template.tool_use"].data = std::string(tools.get().text);
  return map_sampling(generation.get(), out);
}

// Returns the config of the text part, "text_config", if the model has other parts; else nullopt.
// The model may have the name of a family too: Qwen2.5-VL's first files have no text part.
base::Result<std::optional<JsonObject>> text_config(const JsonObject& config) {
  if (!config.find("text_config")) return std::optional<JsonObject>();
  KVICK_TRY(const JsonObject inner, config.get_object("text_config"));
  KVICK_TRY(const std::string type, config.get_string("model_type", std::string()));
  KVICK_TRY(const std::string inner_type, inner.get_string("model_type", std::string()));
  if (find_hf_family(type) != nullptr && find_hf_family(inner_type) == nullptr)
    return std::optional<JsonObject>();
  return std::optional<JsonObject>(inner);
}

// Returns the config with the family's defaults appended after its own fields: of two fields with
// one name the first is found. nullopt: the family has no defaults.
base::Result<std::optional<JsonDocument>> with_defaults(const JsonObject& config) {
  KVICK_TRY(const std::string type, config.get_string("model_type", std::string()));
  const HfFamily* family = find_hf_family(type);
  if (family == nullptr || family->defaults.empty()) return std::optional<JsonDocument>();
  std::string text = simdjson::minify(config.fields());
  text.pop_back();  // the closing brace; there are fields before it, as it has a type
  text.append(", ").append(family->defaults).append("}");
  KVICK_TRY(JsonDocument document, JsonDocument::parse(text, config.name(), kMaxConfigBytes));
  return std::optional<JsonDocument>(std::move(document));
}

std::string folder_name(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  return (error ? folder : whole).filename().string();
}

}  // namespace

base::Result<ModelFile> open_huggingface(const std::string& folder) {
  const fs::path path(folder);
  if (!is_there(path / "config.json"))
    return base::fail("{}: a folder without config.json is no model", folder);
  KVICK_TRY(const TextFile file, TextFile::open(path, "config.json"));
  const NamedText config_text = file.get();
  KVICK_TRY(const JsonDocument document,
            JsonDocument::parse(config_text.text, config_text.name, kMaxConfigBytes));
  KVICK_TRY(const JsonObject whole_json, JsonObject::from(document.root(), config_text.name));
  KVICK_TRY(const std::optional<JsonObject> text_json, text_config(whole_json));
  const JsonObject& told_json = text_json ? *text_json : whole_json;
  KVICK_TRY(const std::optional<JsonDocument> filled, with_defaults(told_json));
  KVICK_TRY(const JsonObject config_json,
            filled ? JsonObject::from(filled->root(), told_json.name()) : told_json);

  ModelFileBuilder builder(Container::kHuggingFace, folder);
  KVICK_TRY(HfConfig config, map_config(config_json, builder.metadata()));
  config.nested = text_json.has_value();
  if (config.nested && !config_json.find("tie_word_embeddings")) {
    KVICK_TRY(config.tied, whole_json.get_bool("tie_word_embeddings", config.tied));
  }
  const bool inside = !whole_json.find("quantization_config");  // as in Kimi K2.5
  KVICK_TRY(const Scheme scheme, read_scheme(inside ? config_json : whole_json));
  builder.metadata()["general.name"].data = folder_name(path);
  KVICK_TRY(std::vector<Shard> shards, find_shards(path));
  KVICK_TRY_VOID(read_shards(shards, scheme, config, builder));
  KVICK_TRY_VOID(check_embedding(builder.file, config));
  KVICK_TRY_VOID(read_modules(folder, config.architecture, builder));
  KVICK_TRY_VOID(add_tokenizer(path, config, config_json, builder.metadata()));
  return builder.finish();
}

}  // namespace kvick::io
