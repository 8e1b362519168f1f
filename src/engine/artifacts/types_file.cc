#include "engine/artifacts/types_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "engine/artifacts/json_fields.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Result;
using nlohmann::ordered_json;

constexpr uint64_t kVersion = 1;
constexpr uintmax_t kMostBytes = uintmax_t{1} << 20;  // a type takes about 200 bytes
constexpr const char* kCommand = "kvick train kvtypes";

std::string dumped(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json types_json(const TypesFile& file) {
  ordered_json types = ordered_json::array();
  for (const TypeMeasured& one : file.types)
    types.push_back({{"type", one.type},
                     {"bytes_per_token", one.bytes_per_token},
                     {"kl_mean", one.kl_mean},
                     {"kl_p99", one.kl_p99},
                     {"perplexity", one.perplexity},
                     {"top1_agreement", one.top1_agreement}});
  return {{"kvick_kv_types", kVersion},
          {"model", identity_json(file.model)},
          {"text", file.text},
          {"tokens", file.tokens},
          {"window", file.window},
          {"f16_perplexity", file.f16_perplexity},
          {"types", types}};
}

// Returns the checksum of all other fields as they were read: written numbers are read back
// exactly.
std::string checksum(const TypesFile& file) {
  const std::string text = dumped(types_json(file), -1);
  return fmt::format("{:016x}", fnv1a(std::as_bytes(std::span(text))));
}

// JSON has neither infinity nor NaN: the losses of a type that ruins a model are written as null.
Result<double> loss_in(const ordered_json& object, const char* key) {
  if (const auto at = object.find(key); at != object.end() && at->is_null())
    return std::numeric_limits<double>::infinity();
  return amount_in(object, key);
}

Result<TypeMeasured> measured_in(const ordered_json& object) {
  if (!object.is_object()) return fail("types holds {}, which is no object", dumped(object, -1));
  TypeMeasured one;
  KVICK_TRY(one.type, text_in(object, "type"));
  KVICK_TRY(one.bytes_per_token, amount_in(object, "bytes_per_token"));
  KVICK_TRY(one.kl_mean, loss_in(object, "kl_mean"));
  KVICK_TRY(one.kl_p99, loss_in(object, "kl_p99"));
  KVICK_TRY(one.perplexity, loss_in(object, "perplexity"));
  KVICK_TRY(one.top1_agreement, amount_in(object, "top1_agreement"));
  return one;
}

}  // namespace

base::Status<> keep_others(TypesFile& file, const TypesFile& before) {
  // Two infinite perplexities are equal, but their difference is not a number.
  const bool as_likely =
      file.f16_perplexity == before.f16_perplexity ||
      std::abs(file.f16_perplexity - before.f16_perplexity) <= 0.01 * before.f16_perplexity;
  if (file.text != before.text || file.tokens != before.tokens || file.window != before.window ||
      !as_likely)
    return fail("{} tokens of {} in windows of {}, with a perplexity of {:.4f} in f16",
                before.tokens, before.text, before.window, before.f16_perplexity);
  for (const TypeMeasured& one : before.types) {
    const auto same = [&](const TypeMeasured& other) { return other.type == one.type; };
    if (std::none_of(file.types.begin(), file.types.end(), same)) file.types.push_back(one);
  }
  std::stable_sort(file.types.begin(), file.types.end(),
                   [](const TypeMeasured& a, const TypeMeasured& b) {
                     return a.bytes_per_token > b.bytes_per_token;
                   });
  return base::Done{};
}

std::string types_path(const std::string& model_path) {
  std::error_code error;
  const fs::path path(model_path);
  if (fs::is_directory(path, error)) return (path / "model.kvt").string();
  return fs::path(path).replace_extension(".kvt").string();
}

std::string types_text(const TypesFile& file) {
  ordered_json json = types_json(file);
  json["checksum"] = checksum(file);
  return dumped(json, 1) + "\n";
}

Result<TypesFile> parse_types(std::string_view text) {
  const ordered_json object = parse_fields(text);
  if (!object.is_object() || !object.contains("kvick_kv_types"))
    return fail("it is no file of measured types, or damaged");
  KVICK_TRY(const uint64_t version, count_in(object, "kvick_kv_types"));
  if (version != kVersion) return fail("it is of version {}, not {}", version, kVersion);
  TypesFile file;
  KVICK_TRY(file.model, identity_in(object));
  KVICK_TRY(file.text, text_in(object, "text"));
  KVICK_TRY(file.tokens, count_in(object, "tokens"));
  KVICK_TRY(file.window, number_in(object, "window"));
  KVICK_TRY(file.f16_perplexity, loss_in(object, "f16_perplexity"));
  const auto types = object.find("types");
  if (types == object.end() || !types->is_array()) return fail("types is missing or no list");
  for (const ordered_json& entry : *types) {
    KVICK_TRY(TypeMeasured one, measured_in(entry));
    file.types.push_back(std::move(one));
  }
  KVICK_TRY(const std::string sum, text_in(object, "checksum"));
  if (sum != checksum(file)) return fail("its checksum is wrong: it is damaged");
  return file;
}

base::Status<> write_types(const std::string& path, const TypesFile& file) {
  return base::write_file(path, types_text(file));
}

Result<TypesFile> read_types(const std::string& path, const ModelIdentity& model) {
  KVICK_TRY(const std::string text, read_small_file(path, "measured types", kMostBytes));
  auto file = parse_types(text);
  if (!file.ok()) return fail("{}: {}", path, file.error().message);
  KVICK_TRY_VOID(check_identity(path, file->model, model, kCommand));
  return file;
}

Result<std::shared_ptr<const TypesFile>> TypesFiles::read(const std::string& path,
                                                          const ModelIdentity& model) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const TypesFile>& known = files_[path];
  if (known == nullptr) {
    KVICK_TRY(TypesFile file, read_types(path, model));
    known = std::make_shared<const TypesFile>(std::move(file));
  }
  return known;
}

}  // namespace kvick::engine
