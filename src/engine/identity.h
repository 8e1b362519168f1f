#pragma once
// Which model a file that was made for one belongs to.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/model_file.h"

namespace kvick::engine {

struct ModelIdentity {
  std::string arch;
  uint32_t layers = 0, kv_heads = 0, head_dim = 0;
  std::string weights;  // 16 hexadecimal digits that tell one set of weights from another
  bool operator==(const ModelIdentity&) const = default;
};

// ModelIdentity::weights, without reading all of them: from every tensor's name, type, shape and
// outermost 64 bytes. The same weights in another format are other weights.
std::string weights_of(const io::ModelFile& file);

// FNV-1a of some bytes, going on from `hash`.
uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = 14695981039346656037u);

}  // namespace kvick::engine
