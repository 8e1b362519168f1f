#pragma once
// Attention over a fixed number of slots instead of all earlier tokens, without rotary embedding:
// Bounded-Cache Transformer (Yi et al. 2024). File format: docs/reference/bct-format.md;
// computation: docs/adr/0008-a-memory-of-slots.md.

#include "kv/strategy/model_facts.h"
#include "model/blocks/block.h"

namespace kvick::model {

// The numbers and matrices that all layers of a model with slots share.
struct SlotMemory {
  kv::Slots facts;       // keys and initial values of the layers read so far
  bool gated = false;    // tokens scale down the slots' previous content when they write
  bool normed = false;   // a head's output is normalised
  bool initial = false;  // the file has the slots' values before the first token
  std::vector<kernels::Matrix> keys;  // [layers][kv_heads]
  std::vector<float> values;          // [layers][kv_heads][slots][head_dim], or empty
};

class SlotAttention final : public Block {
 public:
  // Reads a layer's tensors. Adds its keys and initial values to `memory`, which must outlive the
  // block.
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
  Linear before_;            // added to the next token's write query; no rows: nothing is added
  Linear step_;              // no rows: each token's step size is 1
  Linear gate_;              // no rows: writing does not scale the previous content
  std::vector<float> ones_;  // [head_dim], because norm_heads has no weights
};

}  // namespace kvick::model
