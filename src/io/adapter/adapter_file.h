#pragma once
// Reads low-rank adapters (LoRA, Hu et al. 2021) from llama.cpp's GGUF files and PEFT's folders.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::io {

// The update of one matrix of the model: factor * B A is added to it.
struct AdapterPair {
  std::string matrix;  // its name in GGUF: "blk.0.attn_q.weight"
  Tensor a, b;         // [rank][inputs], [outputs][rank]
  float factor = 1;
};

struct AdapterFile {
  ModelFile file;                  // owns the bytes that the tensors borrow
  std::string path;                // as the user gave it
  std::string architecture;        // of the model that the adapter was made for; empty: unknown
  std::vector<AdapterPair> pairs;  // at least one; at most one per matrix
  bool from_gguf() const { return file.container() == Container::kGguf; }
};

// Opens a GGUF file, or a folder with adapter_config.json and adapter_model.safetensors. Errors: it
// is not an adapter, or of a kind that kvick does not compute; the message names file and field.
base::Result<AdapterFile> open_adapter(const std::string& path);

// Read adapters from files that are in memory, for the fuzzer. config: the text of
// adapter_config.json.
base::Result<AdapterFile> read_gguf_adapter(ModelFile file);
base::Result<AdapterFile> read_peft_adapter(ModelFile file, std::string_view config,
                                            const std::string& config_name);

}  // namespace kvick::io
