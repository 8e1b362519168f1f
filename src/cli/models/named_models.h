#pragma once
// Well-known models on the Hugging Face hub by short names: `kvick pull qwen3-4b`.

#include <cstdint>
#include <span>
#include <string_view>

namespace kvick::cli {

struct NamedModel {
  std::string_view name;
  std::string_view reference;  // hf:owner/repo/file
  std::string_view type;       // the type of its weights, or their mixture
  std::string_view licence;    // SPDX identifier, or the licence's own name
  uint64_t bytes;              // approximate size of the file
  // Set if two public records of the file agree on it. Else the file is checked against the SHA-256
  // that the hub states.
  std::string_view sha256 = {};
};

std::span<const NamedModel> named_models();
const NamedModel* find_named_model(std::string_view name);  // null: no such name

}  // namespace kvick::cli
