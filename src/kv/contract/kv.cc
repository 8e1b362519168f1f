#include "kv/contract/kv.h"

namespace kvick::kv {

uint64_t StoreInfo::token_bytes() const {
  uint64_t bytes = 0;
  for (const Shape& shape : groups) bytes += shape.token_bytes();
  return bytes;
}

uint64_t StoreInfo::used_bytes(uint32_t tokens) const {
  uint64_t bytes = 0;
  for (const Shape& shape : groups) bytes += shape.used_bytes(tokens);
  return bytes;
}

}  // namespace kvick::kv
