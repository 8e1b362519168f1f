#include "engine/artifacts/ranges_file.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "engine/artifacts/json_fields.h"

namespace kvick::engine {
namespace {

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

}  // namespace

std::string ranges_text(const Ranges& ranges) {
  const ordered_json object = {{"kvick_ranges", kVersion},
                               {"model", identity_json(ranges.model)},
                               {"tokens", ranges.tokens},
                               {"margin", ranges.margin},
                               {"k", ranges.heads.k},
                               {"v", ranges.heads.v},
                               {"checksum", checksum(ranges.heads)}};
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<Ranges> parse_ranges(std::string_view text) {
  const ordered_json object = parse_fields(text);
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
  KVICK_TRY(const std::string text, read_small_file(path, "ranges", kMostBytes));
  auto ranges = parse_ranges(text);
  if (!ranges.ok()) return fail("{}: {}", path, ranges.error().message);
  KVICK_TRY_VOID(check_identity(path, ranges->model, model, "kvick train ranges"));
  return std::shared_ptr<const kv::StaticRanges>(
      std::make_shared<kv::StaticRanges>(std::move(ranges->heads)));
}

}  // namespace kvick::engine
