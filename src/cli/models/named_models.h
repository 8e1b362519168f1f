#pragma once
// Well-known models on the Hugging Face hub by short names: `kvick pull qwen3-4b`.

#include <cstdint>
#include <span>
#include <string_view>

namespace kvick::cli {

struct NamedModel {
  std::string_view name;
  std::string_view reference;  // hf:owner/repo/file
  std::string_view type;       // the mixture of its weights
  std::string_view licence;    // its SPDX identifier, or the name of its own
  uint64_t bytes;              // of the file, about
  // Where two public records of the file agree on it; else the hub's own word is checked.
  std::string_view sha256 = {};
};

std::span<const NamedModel> named_models();
const NamedModel* find_named_model(std::string_view name);  // null: no such name

}  // namespace kvick::cli
