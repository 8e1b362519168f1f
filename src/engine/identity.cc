#include "engine/identity.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::engine {

uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 1099511628211u;
  return hash;
}

std::string weights_of(const io::ModelFile& file) {
  constexpr size_t kEnd = 64;  // bytes of a tensor's ends
  uint64_t hash = fnv1a({});
  for (const io::Tensor& tensor : file.tensors()) {
    hash = fnv1a(std::as_bytes(std::span(tensor.name)), hash);
    const auto type = static_cast<uint64_t>(tensor.dtype);
    hash = fnv1a(std::as_bytes(std::span(&type, 1)), hash);
    hash = fnv1a(std::as_bytes(std::span(tensor.shape)), hash);
    const size_t n = std::min(kEnd, tensor.data.size());
    hash = fnv1a(tensor.data.last(n), fnv1a(tensor.data.first(n), hash));
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace kvick::engine
