#pragma once
// Files of low-rank adapters (LoRA, Hu et al. 2021): llama.cpp's GGUF files and PEFT's folders.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::io {

// What is added to one matrix of the model: factor * B A.
struct AdapterPair {
  std::string matrix;  // by GGUF's name: "blk.0.attn_q.weight"
  Tensor a, b;         // [rank][inputs], [outputs][rank]
  float factor = 1;
};

struct AdapterFile {
  ModelFile file;                  // holds the bytes that the tensors borrow
  std::string path;                // as the user gave it
  std::string architecture;        // of the model that it was made for; empty: the file is silent
  std::vector<AdapterPair> pairs;  // at least one, each matrix once
  bool from_gguf() const { return file.container() == Container::kGguf; }
};

// path: a GGUF file, or a folder with adapter_config.json and adapter_model.safetensors. Errors:
// what is no adapter, or of a kind that kvick does not compute; the message names file and field.
base::Result<AdapterFile> open_adapter(const std::string& path);

// The same of what has been read; what the fuzzer calls. config: the text of adapter_config.json.
base::Result<AdapterFile> read_gguf_adapter(ModelFile file);
base::Result<AdapterFile> read_peft_adapter(ModelFile file, std::string_view config,
                                            const std::string& config_name);

}  // namespace kvick::io
