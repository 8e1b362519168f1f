#pragma once
// Attention over a memory with a fixed number of slots instead of all earlier tokens, without
// rotary embedding: Bounded-Cache Transformer (Yi et al. 2024). File format:
// docs/reference/bct-format.md; computation: docs/adr/0008-a-memory-of-slots.md.

#include "kv/strategy/model_facts.h"
#include "model/blocks/block.h"

namespace kvick::model {

// What all layers of a model with a memory of slots share.
struct SlotMemory {
  kv::Slots facts;                    // keys and initial values of the layers read so far
  bool gated = false;                 // a gate erases slot contents as tokens write
  bool normed = false;                // a head's output is normalised
  bool initial = false;               // the file has the values before the first token
  std::vector<kernels::Matrix> keys;  // [layers][kv_heads]
  std::vector<float> values;          // [layers][kv_heads][slots][head_dim], or empty
};

class SlotAttention final : public Block {
 public:
  // Adds the layer's keys and values to the memory, which outlives the block.
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader, SlotMemory& memory);

  Rest run(const Pass& pass, Rest rest) const override;

 private:
  base::Status<> read_writes(const BlockReader& reader);
  static base::Status<> read_memory(const BlockReader& reader, SlotMemory& memory);
  void scale_writes(const Pass& pass, const float* step, float* v) const;
  void add_before(const Pass& pass, const float* before, float* k) const;
  void norm_heads(const Pass& pass, float* read) const;
  const LayerConfig& numbers(const Pass& pass) const { return pass.config.layers[layer_]; }

  const SlotMemory* memory_ = nullptr;
  uint32_t layer_ = 0;
  Norm norm_;
  Linear q_, write_q_, write_v_, out_;
  Linear before_;            // what is added to the next token's write query; no rows: nothing
  Linear step_;              // no rows: each token's step is 1
  Linear gate_;              // no rows: tokens leave the memory as it is
  std::vector<float> ones_;  // [head_dim], weights of a norm that has none
};

}  // namespace kvick::model
