// libFuzzer: parses any bytes as a file of measured types; what parses is written and parsed again.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engine/artifacts/types_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace engine = kvick::engine;
  const auto file = engine::parse_types({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  const auto again = engine::parse_types(engine::types_text(*file));
  KVICK_CHECK(again.ok() && again->types == file->types, "what was read cannot be read again");
  return 0;
}
