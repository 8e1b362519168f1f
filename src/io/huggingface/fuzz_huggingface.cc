// libFuzzer: the first four zero bytes split the input into config.json, tokenizer.json,
// tokenizer_config.json, generation_config.json and model.safetensors.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "io/huggingface/hf_names.h"
#include "io/huggingface/hf_tokenizer.h"
#include "io/quantised/join.h"

namespace {

namespace base = kvick::base;
namespace io = kvick::io;

// Joins quantised tensors and reads their first and last rows.
base::Status<> read_tensors(const io::JsonObject& config, io::GateUp gate_up,
                            std::string_view image) {
  KVICK_TRY(const io::Scheme scheme, io::read_scheme(config));
  const auto bytes = std::as_bytes(std::span(image));
  KVICK_TRY(const io::Safetensors parsed, io::parse_safetensors_image(bytes, "model"));
  KVICK_TRY(const auto joined, io::join_tensors(scheme, gate_up, parsed.tensors));
  for (const auto& [tensor, label] : joined) {
    std::vector<std::byte> row(tensor.row_bytes());
    for (const uint64_t at : {uint64_t{0}, tensor.elements() / tensor.row_elements() - 1})
      tensor.read_rows(at, 1, row.data());
  }
  return base::Done{};
}

base::Status<> read(const std::array<std::string_view, 5>& texts) {
  KVICK_TRY(const io::JsonDocument document, io::JsonDocument::parse(texts[0], "config", 1 << 20));
  KVICK_TRY(const io::JsonObject root, io::JsonObject::from(document.root(), "config"));
  io::Metadata out;
  KVICK_TRY(io::HfConfig config, io::map_config(root, out));
  if (!texts[4].empty()) KVICK_TRY_VOID(read_tensors(root, config.gate_up, texts[4]));
  // If there are weights, the embedding's rows limit this number.
  config.vocabulary = std::min<uint64_t>(config.vocabulary, 4096);
  KVICK_TRY_VOID(io::map_tokenizer(
      {{"tokenizer", texts[1]}, {"tokenizer_config", texts[2]}, {"generation", texts[3]}, {}},
      config, root, out));
  KVICK_TRY(const auto name, io::map_tensor_name(config, texts[2], "tensor"));
  return base::Done{};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 5> texts;
  for (std::string_view& text : std::span(texts).first(4)) {
    text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  }
  texts[4] = rest;
  const auto status = read(texts);
  return status.ok() || !status.error().message.empty() ? 0 : -1;
}
