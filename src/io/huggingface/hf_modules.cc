#include "io/huggingface/hf_modules.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/quantised/join.h"
#include "io/safetensors/json.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 1 << 20;

// A small JSON file.
struct JsonFile {
  static base::Result<JsonFile> open(const fs::path& path) {
    KVICK_TRY(const base::MappedFile mapped, base::MappedFile::open(path.string()));
    const auto bytes = mapped.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    KVICK_TRY(JsonDocument document, JsonDocument::parse(text, path.string(), kMaxConfigBytes));
    return JsonFile{std::move(document), path.string()};
  }
  base::Result<JsonObject> object() const { return JsonObject::from(document.root(), name); }

  JsonDocument document;
  std::string name;
};

// Returns GGUF's number of a pooling. The first files have a flag for each kind.
base::Result<uint64_t> pooling_of(const JsonObject& config) {
  constexpr std::pair<std::string_view, uint64_t> kKinds[] = {
      {"mean", 1}, {"cls", 2}, {"lasttoken", 3}};
  constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_cls_token", "cls"},
      {"pooling_mode_lasttoken", "lasttoken"},
      {"pooling_mode_max_tokens", "max"},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
      {"pooling_mode_weightedmean_tokens", "weightedmean"}};
  std::string mode;
  if (config.find("pooling_mode")) {
    KVICK_TRY(mode, config.get_string("pooling_mode"));
  } else {
    for (const auto& [field, name] : kFlags) {
      KVICK_TRY(const bool on, config.get_bool(field, false));
      if (on) mode += (mode.empty() ? "" : " and ") + std::string(name);
    }
  }
  for (const auto& [name, kind] : kKinds)
    if (name == mode) return kind;
  return base::fail("{}: the pooling is {}; kvick knows mean, cls and lasttoken", config.name(),
                    mode.empty() ? "none" : in_quotes(mode));
}

// Reads a Dense module: `name`.weight and maybe `name`.bias.
base::Status<> read_dense(const fs::path& folder, const std::string& name,
                          ModelFileBuilder& builder) {
  KVICK_TRY(const JsonFile file, JsonFile::open(folder / "config.json"));
  KVICK_TRY(const JsonObject config, file.object());
  KVICK_TRY(const std::string activation, config.get_string("activation_function"));
  if (!activation.ends_with(".Identity"))
    return base::fail("{} is {}; kvick knows Identity", config.label("activation_function"),
                      in_quotes(activation));
  const std::string path = (folder / "model.safetensors").string();
  KVICK_TRY(base::MappedFile mapped, base::MappedFile::open(path));
  KVICK_TRY(const Safetensors stored, parse_safetensors_image(mapped.bytes(), path));
  KVICK_TRY(std::vector<JoinedTensor> tensors, join_tensors({}, GateUp::kNone, stored.tensors));
  for (auto& [tensor, label] : tensors) {
    if (tensor.name != "linear.weight" && tensor.name != "linear.bias")
      return base::fail("{}: a Dense module has linear.weight and linear.bias only", label);
    tensor.name.replace(0, std::string_view("linear").size(), name);
    KVICK_TRY_VOID(builder.add_tensor(std::move(tensor)));
  }
  builder.add_file_bytes(mapped.bytes().size());
  builder.hold(std::move(mapped));
  return base::Done{};
}

// The folder of a module. Only one below the model's may be named.
base::Result<fs::path> folder_of(const fs::path& model, const JsonObject& module) {
  KVICK_TRY(const std::string name, module.get_string("path"));
  if (name.empty() || name == "." || name == ".." ||
      name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
    return base::fail("{} must be the name of a folder in the model's", module.label("path"));
  return model / name;
}

}  // namespace

base::Status<> read_modules(const std::string& folder, const std::string& architecture,
                            ModelFileBuilder& builder) {
  const fs::path path = fs::path(folder) / "modules.json";
  std::error_code error;
  if (!fs::exists(path, error)) return base::Done{};
  KVICK_TRY(const JsonFile file, JsonFile::open(path));
  simdjson::dom::array modules;
  if (file.document.root().get(modules) != simdjson::SUCCESS)
    return base::fail("{}: must be a list of modules", file.name);
  std::vector<std::string> dense = {"dense_3", "dense_2"};  // names that are left, the next last
  for (const Json entry : modules) {
    KVICK_TRY(const JsonObject module, JsonObject::from(entry, file.name));
    KVICK_TRY(const std::string type, module.get_string("type"));
    const std::string kind = type.substr(type.rfind('.') + 1);  // packages' names change
    if (kind == "Transformer" || kind == "Normalize") continue;
    if (kind == "Pooling") {
      KVICK_TRY(const fs::path place, folder_of(folder, module));
      KVICK_TRY(const JsonFile pooling, JsonFile::open(place / "config.json"));
      KVICK_TRY(const JsonObject config, pooling.object());
      KVICK_TRY(builder.metadata()[architecture + ".pooling_type"].data, pooling_of(config));
    } else if (kind == "Dense" && !dense.empty()) {
      KVICK_TRY(const fs::path place, folder_of(folder, module));
      KVICK_TRY_VOID(read_dense(place, dense.back(), builder));
      dense.pop_back();
    } else {
      return base::fail("{} is {}; kvick knows Transformer, Pooling, up to two Dense and Normalize",
                        module.label("type"), in_quotes(type));
    }
  }
  return base::Done{};
}

}  // namespace kvick::io
