#include "engine/artifacts/ranges_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/write_file.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Result;
using nlohmann::ordered_json;

constexpr uint64_t kVersion = 1;
// 100 layers of 128 heads take half a megabyte.
constexpr uintmax_t kMostBytes = uintmax_t{64} << 20;

std::string checksum(const kv::StaticRanges& heads) {
  const uint64_t keys = fnv1a(std::as_bytes(std::span(heads.k)));
  return fmt::format("{:016x}", fnv1a(std::as_bytes(std::span(heads.v)), keys));
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

Result<std::string> text_in(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return fail("{} is missing or no text", key);
  return at->get<std::string>();
}

Result<std::vector<float>> list_in(const ordered_json& object, const char* key, uint64_t heads) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_array() || at->size() != heads)
    return fail("{} is no list of {} numbers", key, heads);
  std::vector<float> list;
  for (const ordered_json& entry : *at) {
    const double range = entry.is_number() ? entry.get<double>() : -1;
    if (!(range >= 0 && range <= std::numeric_limits<float>::max()))
      return fail("{} holds {}, which is no range", key, entry.dump());
    list.push_back(static_cast<float>(range));
  }
  return list;
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

std::string describe(const ModelIdentity& model) {
  return fmt::format("{} layers of {} KV heads of {} values, architecture {}", model.layers,
                     model.kv_heads, model.head_dim, model.arch);
}

}  // namespace

std::string ranges_text(const Ranges& ranges) {
  const ModelIdentity& model = ranges.model;
  const ordered_json object = {{"kvick_ranges", kVersion},
                               {"model",
                                {{"arch", model.arch},
                                 {"layers", model.layers},
                                 {"kv_heads", model.kv_heads},
                                 {"head_dim", model.head_dim},
                                 {"weights", model.weights}}},
                               {"tokens", ranges.tokens},
                               {"margin", ranges.margin},
                               {"k", ranges.heads.k},
                               {"v", ranges.heads.v},
                               {"checksum", checksum(ranges.heads)}};
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<Ranges> parse_ranges(std::string_view text) {
  const ordered_json object = ordered_json::parse(text, nullptr, false);
  if (!object.is_object() || !object.contains("kvick_ranges"))
    return fail("it is no file of ranges, or damaged");
  KVICK_TRY(const uint64_t version, count_in(object, "kvick_ranges"));
  if (version != kVersion) return fail("it is of version {}, not {}", version, kVersion);
  Ranges ranges;
  KVICK_TRY(ranges.model, identity_in(object));
  KVICK_TRY(ranges.tokens, count_in(object, "tokens"));
  const auto margin = object.find("margin");
  if (margin == object.end() || !margin->is_number()) return fail("margin is missing or no number");
  ranges.margin = margin->get<double>();
  const uint64_t heads = uint64_t{ranges.model.layers} * ranges.model.kv_heads;
  KVICK_TRY(ranges.heads.k, list_in(object, "k", heads));
  KVICK_TRY(ranges.heads.v, list_in(object, "v", heads));
  KVICK_TRY(const std::string sum, text_in(object, "checksum"));
  if (sum != checksum(ranges.heads)) return fail("its checksum is wrong: it is damaged");
  return ranges;
}

base::Status<> write_ranges(const std::string& path, const Ranges& ranges) {
  return base::write_file(path, ranges_text(ranges));
}

Result<std::shared_ptr<const kv::StaticRanges>> read_ranges(const std::string& path,
                                                            const ModelIdentity& model) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return fail("cannot read the ranges {}: {}", path, error.message());
  if (bytes > kMostBytes) return fail("{}: {} bytes are too many for ranges", path, bytes);
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail("cannot read the ranges {}", path);
  auto ranges = parse_ranges(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!ranges.ok()) return fail("{}: {}", path, ranges.error().message);
  if (ranges->model == model)
    return std::shared_ptr<const kv::StaticRanges>(
        std::make_shared<kv::StaticRanges>(std::move(ranges->heads)));
  if (describe(ranges->model) != describe(model))
    return fail("{} is for another model: {}; this one has {}", path, describe(ranges->model),
                describe(model));
  return fail("{} is for other weights than this model's: make its own with kvick train ranges",
              path);
}

}  // namespace kvick::engine
