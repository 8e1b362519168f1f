// libFuzzer: the input is read as an adapter's GGUF file, as PEFT's tensors, and as PEFT's
// configuration.
#include <cstdint>

#include "io/adapter/adapter_file.h"

namespace {

using kvick::base::Result;
using kvick::io::AdapterFile;

size_t pairs(const Result<AdapterFile>& file) { return file.ok() ? file->pairs.size() : 0; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace io = kvick::io;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (auto gguf = io::ModelFile::parse_gguf(bytes, "fuzz"); gguf.ok())
    pairs(io::read_gguf_adapter(std::move(gguf).value()));
  if (auto tensors = io::ModelFile::parse_safetensors(bytes, "fuzz"); tensors.ok())
    pairs(io::read_peft_adapter(std::move(tensors).value(), R"({"r":1,"lora_alpha":2})", "config"));
  pairs(io::read_peft_adapter(io::ModelFile(), {reinterpret_cast<const char*>(data), size},
                              "config"));
  return 0;
}
