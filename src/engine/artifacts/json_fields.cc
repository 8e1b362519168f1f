#include "engine/artifacts/json_fields.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json_depth.h"

namespace kvick::engine {
namespace {

using base::fail;
using base::Result;
using nlohmann::ordered_json;

std::string describe(const ModelIdentity& model) {
  return fmt::format("{} layers of {} KV heads of {} values, architecture {}", model.layers,
                     model.kv_heads, model.head_dim, model.arch);
}

}  // namespace

ordered_json parse_fields(std::string_view text) {
  constexpr size_t kMostDepth = 8;
  if (base::is_nested_deeper(text, kMostDepth)) return ordered_json::value_t::discarded;
  return ordered_json::parse(text, nullptr, false);
}

Result<uint64_t> count_in(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned())
    return fail("{} is missing or no whole number", key);
  return at->get<uint64_t>();
}

Result<uint32_t> number_in(const ordered_json& object, const char* key) {
  KVICK_TRY(const uint64_t count, count_in(object, key));
  if (count > UINT32_MAX) return fail("{} is {}, which is too many", key, count);
  return static_cast<uint32_t>(count);
}

Result<double> amount_in(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number()) return fail("{} is missing or no number", key);
  const double amount = at->get<double>();
  if (!std::isfinite(amount) || amount < 0) return fail("{} is {}", key, amount);
  return amount;
}

Result<std::string> text_in(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return fail("{} is missing or no text", key);
  return at->get<std::string>();
}

ordered_json identity_json(const ModelIdentity& model) {
  return {{"arch", model.arch},
          {"layers", model.layers},
          {"kv_heads", model.kv_heads},
          {"head_dim", model.head_dim},
          {"weights", model.weights}};
}

Result<ModelIdentity> identity_in(const ordered_json& object) {
  const auto at = object.find("model");
  if (at == object.end() || !at->is_object()) return fail("model is missing or no object");
  ModelIdentity model;
  KVICK_TRY(model.arch, text_in(*at, "arch"));
  KVICK_TRY(model.layers, number_in(*at, "layers"));
  KVICK_TRY(model.kv_heads, number_in(*at, "kv_heads"));
  KVICK_TRY(model.head_dim, number_in(*at, "head_dim"));
  KVICK_TRY(model.weights, text_in(*at, "weights"));
  return model;
}

base::Status<> check_identity(const std::string& path, const ModelIdentity& made_for,
                              const ModelIdentity& model, const char* command) {
  if (made_for == model) return base::Done{};
  if (describe(made_for) != describe(model))
    return fail("{} is for another model: {}; this one has {}: make its own with {}", path,
                describe(made_for), describe(model), command);
  return fail("{} is for other weights than this model's: make its own with {}", path, command);
}

Result<std::string> read_small_file(const std::string& path, const char* what,
                                    uintmax_t most_bytes) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return fail("cannot read the {} {}: {}", what, path, error.message());
  if (bytes > most_bytes) return fail("{}: {} bytes are too many for {}", path, bytes, what);
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail("cannot read the {} {}", what, path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace kvick::engine
