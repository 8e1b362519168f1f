#pragma once
// The attention of a model without its weights: keys, values and queries are random, the store, the
// kernels and the threads are those of a real forward. What the cost of keeping a cache is measured
// with.

#include <span>
#include <vector>

#include "base/clock.h"
#include "kv/contract/kv.h"
#include "model/core/model.h"
#include "model/core/workspace.h"

namespace kvick::plan {

struct BlockSeconds {
  double begin = 0;   // room for the new rows: allocating, copying
  double write = 0;   // the new rows
  double attend = 0;  // all layers; without compiling, see kernels::BucketAttention::compiled
  double commit = 0;
  double all() const { return begin + write + attend + commit; }
};

class AttentionBlock {
 public:
  // config: the layers that the store was made for. All three outlive it.
  AttentionBlock(const model::Config& config, kv::Store& store, model::Workspace& workspace,
                 base::Clock clock = base::steady_seconds);

  // Every sequence takes `tokens` more; seconds are added to. keep: else the step is dropped.
  base::Status<kv::Shortage> step(std::span<const kv::SeqId> seqs, uint32_t tokens,
                                  BlockSeconds& seconds, bool keep = true);
  // The same rows, without their attention.
  base::Status<kv::Shortage> fill(std::span<const kv::SeqId> seqs, uint32_t tokens);

 private:
  struct Prepared {
    std::vector<model::Slot> slots;
    std::vector<kv::Slot> kv_slots;
  };
  void write(uint32_t layer, kv::Step& step) const;
  void write_states(uint32_t layer, kv::Step& step) const;
  Prepared prepare(std::span<const kv::SeqId> seqs, uint32_t tokens);
  double compiled_s() const;

  const model::Config& config_;
  kv::Store& store_;
  model::Workspace& workspace_;
  base::Clock clock_;
  std::vector<model::Token> tokens_;
  uint32_t slots_ = 0;               // of the step
  std::vector<float> values_, out_;  // queries, keys and values alike; results
};

}  // namespace kvick::plan
