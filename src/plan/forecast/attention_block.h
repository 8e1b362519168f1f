#pragma once
// Runs the attention of a model without its weights, to measure what keeping a cache costs. Keys,
// values and queries are random; the store, the kernels and the threads are those of a real
// forward.

#include <span>
#include <vector>

#include "base/clock.h"
#include "kv/contract/kv.h"
#include "model/core/model.h"
#include "model/core/workspace.h"

namespace kvick::plan {

struct BlockSeconds {
  double begin = 0;   // making room for the new rows: allocating, copying
  double write = 0;   // writing the new rows
  double attend = 0;  // attention of all layers, without kernels::BucketAttention::compiled()
  double commit = 0;
  double all() const { return begin + write + attend + commit; }
};

class AttentionBlock {
 public:
  // config: of the store's layers. config, store and workspace must outlive this object.
  AttentionBlock(const model::Config& config, kv::Store& store, model::Workspace& workspace,
                 base::Clock clock = base::steady_seconds);

  // Adds `tokens` tokens to every sequence, and the step's times to `seconds`. keep: commits the
  // step; otherwise it is dropped.
  base::Status<kv::Shortage> step(std::span<const kv::SeqId> seqs, uint32_t tokens,
                                  BlockSeconds& seconds, bool keep = true);
  // Adds tokens without computing their attention.
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
  uint32_t slots_ = 0;               // sequences of the step
  std::vector<float> values_, out_;  // values_: serve as queries, keys and values; out_: results
};

}  // namespace kvick::plan
