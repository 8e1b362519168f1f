// libFuzzer: parses any bytes as a predictor file; what parses is written and parsed again.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "engine/artifacts/predictor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace engine = kvick::engine;
  const auto file = engine::parse_predictor(std::as_bytes(std::span(data, size)));
  if (!file.ok()) return 0;
  const std::string bytes = engine::predictor_bytes(*file);
  const auto again = engine::parse_predictor(std::as_bytes(std::span(bytes)));
  KVICK_CHECK(again.ok(), "what was read cannot be read again");
  return 0;
}
