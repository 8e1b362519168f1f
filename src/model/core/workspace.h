#pragma once

#include <span>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/attention/bucket_attention.h"
#include "kernels/table/table.h"

namespace kvick::model {

// Tokens of a step next to each other that are computed by one arithmetic.
struct TokenRun {
  uint32_t first = 0, tokens = 0;
  bool prompt = false;  // that of prompts
};
// What linear layers read of a run: `answer` for those by the arithmetic of answers, which of a run
// of a prompt are those of F32 alone where prompts have another.
struct RunInputs {
  TokenRun run;
  kernels::Activations answer;
  kernels::PromptActivations prompt;
};
// Whether a layer's inputs are rounded to bfloat16 for it, but those of prompts on tiles.
inline bool takes_rounded(const kernels::Table& kernels, kernels::DType type) {
  return kernels.matmul_rounded != nullptr && kernels::has_rounded_matmul(type);
}
// The types of weights that some inputs meet.
struct InputTypes {
  bool quantised = false, rounded = false, tiled = false;
  void add(const kernels::Table& kernels, kernels::DType type) {
    quantised |= kernels::pack_format(type).quantised;
    rounded |= takes_rounded(kernels, type);
    tiled |= kernels::has_prompt_matmul(type);
  }
};

// Tokens of a step next to each other whose linear layers an adapter changes.
class Adapter;
struct AdapterRun {
  uint32_t first = 0, tokens = 0;
  const Adapter* adapter = nullptr;
  float scale = 1;
};

struct Linear;
// Looks at what linear layers read; for measuring. Between the calls of one forward nothing else
// runs.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // x: [tokens][linear.w.inputs].
  virtual void see(const Linear& linear, const float* x, uint32_t tokens) = 0;
};

// What one caller of forward brings: threads, kernels, and buffers that grow to the largest batch
// seen and stay. One forward at a time.
class Workspace {
 public:
  Workspace(base::ThreadPool& team, const kernels::Table& table)
      : pool(team), kernels(table), scratch(team.size()) {}

  base::ThreadPool& pool;
  const kernels::Table& kernels;
  // Null: attention by our kernels. Else by this library's products over whole buckets, which the
  // store must have (kv::Traits::buckets), in float32.
  kernels::BucketAttention* library = nullptr;
  InputObserver* observer = nullptr;
  kernels::ReadAhead read_ahead = kernels::ReadAhead::kTwice;  // set by the model that runs here
  std::vector<AdapterRun> adapters;  // of the tokens that the layers compute now; set by the model
  std::vector<base::Arena> scratch;  // one per worker, reset by whoever uses it

  // [count] floats, contents undefined, valid until the next call with the same slot.
  enum Name {
    kHidden,
    kNormed,
    kQkv,
    kAttention,
    kHeads,
    kFfn,
    kProjected,
    kCosSin,
    kPartials,
    kRouter,
    kExpertInputs,
    kExpertFfn,
    kExpertOutputs,
    kLowRank,
    kLogits,
    kLayerInputs,
    kStreams,
    kLaurel,
    kNames
  };
  float* floats(Name name, size_t count);

  // Calls body(token) for each, in parallel if that is worth it; floats: what it touches of one.
  using TokenBody = base::FunctionRef<void(uint32_t token)>;
  void for_tokens(uint32_t tokens, size_t floats, TokenBody body);

  // x: [tokens][inputs] as linear layers of such types take it, run by run: quantised, rounded, or
  // as it is. prepare(token) is called before that row of x is read, once per token, from several
  // threads. ready: of each run what prompts read; then x of these tokens is not. Valid until the
  // next call.
  std::span<const RunInputs> inputs(const float* x, uint32_t inputs, std::span<const TokenRun> runs,
                                    InputTypes types, TokenBody prepare,
                                    std::span<const kernels::PromptActivations> ready = {});
  // Room for what the runs of prompts will read of so many inputs, one of each run. Valid until the
  // next call.
  std::span<kernels::PromptActivations> gated(std::span<const TokenRun> runs, uint32_t inputs);

 private:
  void give_room(kernels::Activations& a, InputTypes types, size_t first);
  void convert(RunInputs& in, InputTypes types, kernels::Range tokens, kernels::Range groups);
  void convert_tile(RunInputs& in, InputTypes types, TokenBody prepare);
  void convert_tiles(RunInputs& in, InputTypes types, TokenBody prepare);
  void round_tiles(RunInputs& in, TokenBody prepare);
  void prepare_run(RunInputs& in, InputTypes types, TokenBody prepare);
  void prepare_many(InputTypes types, TokenBody prepare);

  base::Buffer buffers_[kNames];
  base::Buffer q_, scale_, sums_, rounded_, tiled_, gated_;
  std::vector<RunInputs> inputs_;
  std::vector<kernels::PromptActivations> gated_runs_;
};

}  // namespace kvick::model
