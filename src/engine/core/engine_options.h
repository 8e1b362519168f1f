#pragma once
// The options with which a model is opened.

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu.h"
#include "engine/core/adapters.h"
#include "io/packed/packed_folder.h"
#include "model/core/model.h"

namespace kvick::engine {

// How attention is computed. kFused: by kvick's kernels, over the rows that exist. kBmm: as BMC
// does it, by a library's products over whole buckets (kernels/attention/bucket_attention.h).
enum class Attention { kFused, kBmm };

// The arithmetic of prompts (docs/adr/0022-attention-of-prompts.md, 0023). kExact: that of answers,
// so that their rows serve later prompts. kTiles: that of the processor's tiles, about twice as
// fast, for linear layers and, where the cache allows it, attention. kAuto: kTiles if the processor
// has tiles.
enum class PromptArithmetic { kExact, kTiles, kAuto };

// What weights of BF16 and F16 are multiplied with, in prompts and answers alike
// (docs/adr/0024-bfloat16-products.md). kF32: activations as they are. kBf16: activations rounded
// to bfloat16, and F16 weights too; twice as fast if the processor multiplies bfloat16 at full
// rate. kAuto: kBf16 if a measurement shows that the processor does.
enum class FloatActivations { kF32, kBf16, kAuto };

struct KvOptions;
// Returns the role of prompt tokens in a store with these options, of which none is left open:
// Engine::prompt_role. buckets: attention multiplies whole buckets.
model::Role prompt_role_of(const KvOptions& resolved, PromptArithmetic prompts,
                           const kernels::Table& kernels, bool buckets);

struct EngineOptions {
  std::string model_path;
  unsigned threads = 0;  // 0: as many as this process may use
  base::Isa isa = base::best_isa();
  Attention attention = Attention::kFused;
  PromptArithmetic prompt_arithmetic = PromptArithmetic::kExact;
  // Whether to read the file once more, for Engine::fingerprint.
  bool fingerprint = false;
  FloatActivations float_activations = FloatActivations::kF32;
  // Called while the weights are read, with bytes done and bytes in all.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // Returns the date that chat templates take for today's.
  std::function<std::tm()> now = base::local_time;
  uint32_t sequence = 0;                         // model::LoadOptions::sequence
  std::span<const model::Family> families = {};  // model::LoadOptions::families
  // The processes that run the model together with this one; null: none (rank_stores.h).
  std::shared_ptr<model::Ranks> ranks = {};
  model::RankSplit split = model::RankSplit::kTensor;
  // Where packed weights are kept for later starts; none: they are not kept (docs/adr/0040).
  std::optional<io::PackedOptions> packed = {};
  uint64_t expert_bytes = 0;                  // model::LoadOptions::expert_bytes
  std::vector<AdapterOptions> adapters = {};  // that sequences may use
};

}  // namespace kvick::engine
