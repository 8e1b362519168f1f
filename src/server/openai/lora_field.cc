#include "server/openai/lora_field.h"

namespace kvick::server {
namespace {

constexpr size_t kMostEntries = 1024;
constexpr double kMostScale = 1000;

std::string list_of(const engine::Adapters& adapters) {
  std::string list;
  for (size_t id = 0; id < adapters.size(); ++id)
    list += fmt::format("{}{} ({})", id > 0 ? ", " : "", id, adapters[id]->name);
  return list.empty() ? "none" : list;
}

}  // namespace

ApiResult<std::optional<LoraScales>> read_lora(Fields& fields) {
  const Json* list = fields.find("lora");
  if (list == nullptr) return std::optional<LoraScales>();
  if (!list->is_array() || list->size() > kMostEntries)
    return bad_field("lora", "lora must be a list of adapters, such as [{{\"id\":0,\"scale\":1}}]");
  LoraScales scales;
  for (const Json& entry : *list) {
    KVICK_TRY(Fields one, fields.inside(entry, "lora"));
    if (one.find("id") == nullptr)
      return bad_field("lora", "each entry of lora needs the id of an adapter");
    KVICK_TRY(const int64_t id, one.get_int("id", 0, {0, INT32_MAX}));
    KVICK_TRY(const double scale, one.get_number("scale", 1, {-kMostScale, kMostScale}));
    KVICK_TRY_VOID(one.check_rest());
    scales.push_back({.id = static_cast<size_t>(id), .scale = static_cast<float>(scale)});
  }
  return std::optional(std::move(scales));
}

ApiResult<engine::AdapterUse> choose_adapter(const std::optional<LoraScales>& lora,
                                             const engine::Adapters& adapters,
                                             engine::AdapterUse of_model) {
  if (!lora) return of_model;
  if (of_model.adapter != nullptr)
    return bad_field("lora", "model names the adapter {} already; leave lora out",
                     of_model.adapter->name);
  engine::AdapterUse use;
  for (const LoraScale& one : *lora) {
    if (one.id >= adapters.size())
      return bad_field("lora", "there is no adapter {}; this server has {}", one.id,
                       list_of(adapters));
    if (one.scale == 0) continue;
    if (use.adapter != nullptr)
      return bad_field("lora", "lora names several adapters; a request is computed with one");
    use = {.adapter = adapters[one.id], .scale = one.scale};
  }
  return use;
}

}  // namespace kvick::server
