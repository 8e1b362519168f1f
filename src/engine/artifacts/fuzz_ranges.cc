// libFuzzer: parses any bytes as a file of ranges; what parses is written and parsed again.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engine/artifacts/ranges_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace engine = kvick::engine;
  const auto ranges = engine::parse_ranges({reinterpret_cast<const char*>(data), size});
  if (!ranges.ok()) return 0;
  const auto again = engine::parse_ranges(engine::ranges_text(*ranges));
  KVICK_CHECK(again.ok(), "what was read cannot be read again");
  return 0;
}
