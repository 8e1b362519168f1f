#pragma once

#include <span>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/attention/bucket_attention.h"
#include "kernels/table/table.h"

namespace kvick::model {

// Adjacent tokens of a step that have the same arithmetic.
struct TokenRun {
  uint32_t first = 0, tokens = 0;
  bool prompt = false;  // they have the arithmetic of prompts
};
// A run's inputs to linear layers. `answer`: for layers in the arithmetic of answers. In a prompt
// run only F32 layers use it, if prompts have their own arithmetic.
struct RunInputs {
  TokenRun run;
  kernels::Activations answer;
  kernels::PromptActivations prompt;
};
// Whether a layer with weights of this type reads inputs rounded to bfloat16, other than in prompt
// tiles.
inline bool takes_rounded(const kernels::Table& kernels, kernels::DType type) {
  return kernels.matmul_rounded != nullptr && kernels::has_rounded_matmul(type);
}
// The forms in which the layers that share some inputs need them.
struct InputTypes {
  bool quantised = false, rounded = false, tiled = false;
  void add(const kernels::Table& kernels, kernels::DType type) {
    quantised |= kernels::pack_format(type).quantised;
    rounded |= takes_rounded(kernels, type);
    tiled |= kernels::has_prompt_matmul(type);
  }
};

// Adjacent tokens of a step that have the same adapter.
class Adapter;
struct AdapterRun {
  uint32_t first = 0, tokens = 0;
  const Adapter* adapter = nullptr;
  float scale = 1;
};

struct Linear;
// Observes the inputs of linear layers, for measuring. Its calls during one forward come one at a
// time, while nothing else runs.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // x: [tokens][linear.w.inputs].
  virtual void see(const Linear& linear, const float* x, uint32_t tokens) = 0;
};

// What one caller of forward provides: threads, kernels, and buffers that grow to the largest batch
// so far and are kept. For one forward at a time.
class Workspace {
 public:
  Workspace(base::ThreadPool& team, const kernels::Table& table)
      : pool(team), kernels(table), scratch(team.size()) {}

  base::ThreadPool& pool;
  const kernels::Table& kernels;
  // Null: attention uses kvick's kernels. Otherwise it uses this library's products over whole
  // buckets in float32, and the store must have buckets (kv::Traits::buckets).
  kernels::BucketAttention* library = nullptr;
  InputObserver* observer = nullptr;
  kernels::ReadAhead read_ahead =
      kernels::ReadAhead::kTwice;    // set by the model that uses this workspace
  std::vector<AdapterRun> adapters;  // of the tokens being computed; set by the model
  std::vector<base::Arena> scratch;  // one per worker, reset by its user before use

  // Returns [count] floats with undefined contents, valid until the next call with the same name.
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

  // Calls body(token) for each token, in parallel if that is worth it. floats: number touched per
  // token.
  using TokenBody = base::FunctionRef<void(uint32_t token)>;
  void for_tokens(uint32_t tokens, size_t floats, TokenBody body);

  // Returns x, [tokens][inputs], in the forms that layers of these types need, run by run:
  // quantised, rounded, or unchanged. Calls prepare(token) before it reads that row of x, once per
  // token, from several threads. ready: per run, the inputs of prompt runs; the rows of x of these
  // runs are then not read. Valid until the next call.
  std::span<const RunInputs> inputs(const float* x, uint32_t inputs, std::span<const TokenRun> runs,
                                    InputTypes types, TokenBody prepare,
                                    std::span<const kernels::PromptActivations> ready = {});
  // Returns buffers for the prompt runs' activations of `inputs` inputs, one per run. Valid until
  // the next call.
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
