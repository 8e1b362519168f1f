// libFuzzer: bytes cut at each 0 into config.json, tokenizer.json, tokenizer_config.json and
// generation_config.json.
#include <algorithm>
#include <array>
#include <cstdint>

#include "io/huggingface/hf_names.h"
#include "io/huggingface/hf_tokenizer.h"

namespace {

namespace base = kvick::base;
namespace io = kvick::io;

base::Status<> read(const std::array<std::string_view, 4>& texts) {
  KVICK_TRY(const io::JsonDocument document, io::JsonDocument::parse(texts[0], "config", 1 << 20));
  KVICK_TRY(const io::JsonObject root, io::JsonObject::from(document.root(), "config"));
  io::Metadata out;
  KVICK_TRY(io::HfConfig config, io::map_config(root, out));
  // The rows of the embedding bound it, where there are weights.
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
  std::array<std::string_view, 4> texts;
  for (std::string_view& text : texts) {
    text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  }
  const auto status = read(texts);
  return status.ok() || !status.error().message.empty() ? 0 : -1;
}
