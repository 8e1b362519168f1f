#include "io/families/hf_mapper.h"

#include <cmath>

#include "io/families/hf_parts.h"

namespace kvick::io {

base::Result<double> positive(const JsonObject& fields, std::string_view field,
                              std::optional<double> fallback) {
  KVICK_TRY(const double value, fields.get_float(field, fallback));
  if (std::isfinite(value) && value > 0) return value;
  return base::fail("{} is {}, which must be above 0", fields.label(field), value);
}

base::Status<> map_layer_count(Mapper& map, std::string_view field) {
  KVICK_TRY(const uint64_t layers, map.size(field));
  if (layers > kMaxLayers)
    return base::fail("{} is {}; at most {} are allowed", map.config().label(field), layers,
                      kMaxLayers);
  map.set("block_count", layers);
  return base::Done{};
}

base::Status<> copy_positive(Mapper& map, std::string_view field, std::string_view key) {
  if (!map.config().find(field)) return base::Done{};
  KVICK_TRY(const double value, positive(map.config(), field));
  map.set(key, value);
  return base::Done{};
}

base::Status<> require_number(const Mapper& map, std::string_view field, double wanted) {
  KVICK_TRY(const double value, map.config().get_float(field, wanted));
  if (value == wanted) return base::Done{};
  return base::fail("{} is {}; kvick knows {}", map.config().label(field), value, wanted);
}

}  // namespace kvick::io
