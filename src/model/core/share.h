#pragma once
// The part of a model that one of several ranks holds and computes (model/ranks/ranks.h). There are
// two kinds. Either a rank has, of each layer, some heads with their keys and values and some of
// the feed-forward block's width, and some rows of the output layer (Shoeybi et al. 2019, section
// 3). Or it has some consecutive layers.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "io/file/model_file.h"
#include "model/core/config.h"

namespace kvick::model {

// A contiguous part of `whole` items, or all of them.
struct Slice {
  uint32_t whole = 0, first = 0, size = 0;

  Slice() = default;
  Slice(uint32_t all) : whole(all), size(all) {}
  Slice(uint32_t of, uint32_t begin, uint32_t end) : whole(of), first(begin), size(end - begin) {}
  bool all() const { return size == whole; }
  // Returns the slice in units that are `factor` times smaller.
  Slice times(uint32_t factor) const {
    return {whole * factor, first * factor, (first + size) * factor};
  }
  bool operator==(const Slice&) const = default;
};

struct LayerShare {
  Slice kv_heads;
  Slice ffn;  // width of the feed-forward block, or of each expert
  Slice shared_ffn;
  explicit LayerShare(const LayerConfig& all)
      : kv_heads(all.kv_heads),
        ffn(all.experts.count > 0 ? all.experts.ffn : all.ffn),
        shared_ffn(all.experts.shared_ffn) {}
};

struct Share {
  uint32_t first_layer = 0;        // the rank's first layer, as an index in the model
  std::vector<LayerShare> layers;  // the rank's layers
  bool embeds = true;              // the rank looks up tokens in the embedding
  Slice vocab;                     // rows of the output layer
  bool adds_biases = true;         // one rank adds the biases of outputs that are summed over ranks
};

// The shape of a layer's feed-forward block, or of each of its experts.
struct FfnShape {
  uint32_t unit = 1;         // ranks cut the width at multiples of this
  uint32_t matrices = 3;     // number of matrices of dim x width
  uint32_t shared_unit = 1;  // the same for the shared expert's width
};

// Returns the FfnShape of each layer. find: returns the file's tensor of that name, or null.
std::vector<FfnShape> ffn_shapes(const Config& config,
                                 base::FunctionRef<const io::Tensor*(std::string_view)> find);
// Returns a rank's part of a layer's `kv_heads` KV heads, divided as evenly as possible.
Slice kv_heads_of(uint32_t kv_heads, unsigned rank, unsigned ranks);
// Returns the share that is the whole model.
Share whole_share(const Config& config);
// Returns a rank's part of every layer. KV heads are divided as evenly as possible, and the
// feed-forward width so that all ranks multiply about as many weights. Of a mixture, every rank has
// some of the width of each expert, so that its work does not depend on the router's choice. The
// shared expert's width is divided evenly, and a rank may have none of it. ffn: of each layer.
// Errors: fewer KV heads or units of the width than ranks; layers that cannot be divided.
base::Result<Share> share_of(const Config& config, std::span<const FfnShape> ffn, unsigned rank,
                             unsigned ranks);
// Returns a rank's consecutive whole layers. Ranks multiply about as many weights each, including
// the output layer, which the last rank has. Errors: fewer layers than ranks; too few places to
// cut, because layers that read each other's rows cannot be on two ranks.
base::Result<Share> stage_of(const Config& config, std::span<const FfnShape> ffn, unsigned rank,
                             unsigned ranks);
// Returns the tokens per piece when a step of `tokens` tokens goes through a pipeline of `ranks`
// ranks.
uint32_t piece_tokens(uint32_t tokens, unsigned ranks);
// Returns the config of a rank's share.
Config config_of(Config config, const Share& share);

}  // namespace kvick::model
