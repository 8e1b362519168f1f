// libFuzzer: decodes arbitrary bytes as a block that a store or a folder returns. The first 40
// bytes are the request: an id (32 bytes) and the expected number of bytes of rows (8). Also
// encodes the bytes and decodes the result.
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "engine/prefix/prefix_block.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace engine = kvick::engine;
  engine::BlockId id;
  uint64_t row_bytes = 0;
  if (size < id.bytes.size() + sizeof(row_bytes)) return 0;
  std::memcpy(id.bytes.data(), data, id.bytes.size());
  std::memcpy(&row_bytes, data + id.bytes.size(), sizeof(row_bytes));
  const auto bytes =
      std::as_bytes(std::span(data, size)).subspan(id.bytes.size() + sizeof(row_bytes));
  const auto rows = engine::decode_block(id, row_bytes, bytes);
  if (rows.ok()) {
    KVICK_CHECK(rows->size() == row_bytes, "{} bytes of rows, not {}", rows->size(), row_bytes);
    const std::string again = engine::encode_block(id, *rows);
    KVICK_CHECK(std::memcmp(again.data(), bytes.data(), bytes.size()) == 0, "another block");
  }
  const std::string whole = engine::encode_block(id, bytes);
  KVICK_CHECK(engine::decode_block(id, bytes.size(), std::as_bytes(std::span(whole))).ok(),
              "what was encoded cannot be read");
  return 0;
}
