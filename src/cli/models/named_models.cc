#include "cli/models/named_models.h"

#include <algorithm>

namespace kvick::cli {
namespace {

// Sorted by size.
constexpr NamedModel kNamed[] = {
    {"qwen3-0.6b", "hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf", "Q8_0", "Apache-2.0",
     639'446'688},
    {"gemma-3-1b", "hf:ggml-org/gemma-3-1b-it-GGUF/gemma-3-1b-it-Q4_K_M.gguf", "Q4_K_M", "Gemma",
     806'000'000},
    {"llama-3.2-1b", "hf:bartowski/Llama-3.2-1B-Instruct-GGUF/Llama-3.2-1B-Instruct-Q4_K_M.gguf",
     "Q4_K_M", "Llama 3.2", 807'694'464},
    {"smollm2-1.7b",
     "hf:HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF/smollm2-1.7b-instruct-q4_k_m.gguf", "Q4_K_M",
     "Apache-2.0", 1'060'000'000},
    {"qwen3-1.7b", "hf:Qwen/Qwen3-1.7B-GGUF/Qwen3-1.7B-Q8_0.gguf", "Q8_0", "Apache-2.0",
     1'830'000'000},
    {"smollm3-3b", "hf:ggml-org/SmolLM3-3B-GGUF/SmolLM3-Q4_K_M.gguf", "Q4_K_M", "Apache-2.0",
     1'915'305'312, "8334b850b7bd46238c16b0c550df2138f0889bf433809008cc17a8b05761863e"},
    {"gemma-3-4b", "hf:ggml-org/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf", "Q4_K_M", "Gemma",
     2'490'000'000},
    {"phi-4-mini", "hf:unsloth/Phi-4-mini-instruct-GGUF/Phi-4-mini-instruct-Q4_K_M.gguf", "Q4_K_M",
     "MIT", 2'491'874'272},
    {"qwen3-4b", "hf:Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf", "Q4_K_M", "Apache-2.0",
     2'497'280'256, "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5"},
    {"llama-3.1-8b",
     "hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
     "Q4_K_M", "Llama 3.1", 4'920'000'000},
    {"qwen3-8b", "hf:Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf", "Q4_K_M", "Apache-2.0",
     5'030'000'000},
    {"gpt-oss-20b", "hf:ggml-org/gpt-oss-20b-GGUF/gpt-oss-20b-mxfp4.gguf", "MXFP4", "Apache-2.0",
     12'110'000'000},
    {"qwen3-30b-a3b", "hf:Qwen/Qwen3-30B-A3B-GGUF/Qwen3-30B-A3B-Q4_K_M.gguf", "Q4_K_M",
     "Apache-2.0", 18'556'685'824,
     "0d003f6662faee786ed5da3e31b29c978de5ae5d275c8794c606a7f3c01aa8f5"},
};

}  // namespace

std::span<const NamedModel> named_models() { return kNamed; }

const NamedModel* find_named_model(std::string_view name) {
  const auto* found = std::find_if(std::begin(kNamed), std::end(kNamed),
                                   [&](const NamedModel& m) { return m.name == name; });
  return found == std::end(kNamed) ? nullptr : found;
}

}  // namespace kvick::cli
