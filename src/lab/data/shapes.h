#pragma once
// The attention shapes of well-known models, by name.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/core/config.h"

namespace kvick::lab {

struct NamedShape {
  std::string_view name, model;
  uint32_t layers, heads, kv_heads, head_dim;
};

std::span<const NamedShape> named_shapes();
// Returns the shape of that name. Error: unknown name; the message lists the known ones.
base::Result<NamedShape> shape_named(std::string_view name);
// Returns the names that the user gave, or the defaults if there are none. Error: unknown name.
base::Result<std::vector<std::string>> shapes_or(const std::vector<std::string>& asked,
                                                 std::span<const char* const> defaults);
// Returns a config of `layers` layers, with the fields that attention needs.
model::Config config_of(const NamedShape& shape, uint32_t layers);

}  // namespace kvick::lab
