// libFuzzer: the input is read as a GGUF file and described.
#include <cstdint>

#include "io/file/describe.h"
#include "io/file/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = kvick::io::ModelFile::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz");
  if (file.ok()) kvick::io::describe_text(*file);
  return 0;
}
