// libFuzzer: the input is read as a safetensors file and described.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "io/file/describe.h"
#include "io/file/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      kvick::io::ModelFile::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  if (file.ok()) kvick::io::describe_json(*file);
  return 0;
}
