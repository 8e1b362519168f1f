#include "lab/data/shapes.h"

#include <fmt/ranges.h>

namespace kvick::lab {

std::span<const NamedShape> named_shapes() {
  static constexpr NamedShape kShapes[] = {
      {"s", "SmolLM2-135M", 30, 9, 3, 64},         {"m", "Llama-3.2-1B", 16, 32, 8, 64},
      {"l7", "Llama-2-7B", 32, 32, 32, 128},       {"l13", "Llama-2-13B", 40, 40, 40, 128},
      {"opt-2.7b", "OPT-2.7B", 32, 32, 32, 80},    {"opt-13b", "OPT-13B", 40, 40, 40, 128},
      {"llama3-8b", "Llama-3-8B", 32, 32, 8, 128}, {"h32d16", "BMC's Table X", 1, 32, 32, 16}};
  return kShapes;
}

base::Result<NamedShape> shape_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const NamedShape& shape : named_shapes()) {
    if (shape.name == name) return shape;
    names.push_back(shape.name);
  }
  return base::fail("there is no shape {}; there are {}", name, fmt::join(names, ", "));
}

base::Result<std::vector<std::string>> shapes_or(const std::vector<std::string>& asked,
                                                 std::span<const char* const> defaults) {
  if (asked.empty()) return std::vector<std::string>(defaults.begin(), defaults.end());
  for (const std::string& name : asked) KVICK_TRY_VOID(shape_named(name));
  return asked;
}

model::Config config_of(const NamedShape& shape, uint32_t layers) {
  model::Config config;
  config.name = shape.model;
  config.layers.assign(layers,
                       model::LayerConfig::attention(shape.heads, shape.kv_heads, shape.head_dim));
  return config;
}

}  // namespace kvick::lab
