#pragma once
// The numbers that define a model, read from the metadata of its file and checked.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::model {

// Rotary embedding: pair i of a head turns by position * frequency[i].
struct Rope {
  uint32_t dims = 0;              // elements of a head that turn, from the first
  bool interleaved = false;       // pairs (2i, 2i+1), else (i, i + dims/2)
  std::vector<double> frequency;  // [dims/2], scaling included
  float magnitude = 1;            // factor on cosines and sines (YaRN's attention factor)
};

struct Config {
  std::string arch, name;
  uint32_t layers = 0, dim = 0, ffn = 0;
  uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  uint32_t vocab = 0;
  uint32_t context = 0;            // most tokens that the model was trained to see at once
  bool learned_positions = false;  // a table of `context` positions: it knows no further ones
  float norm_eps = 0;
  Rope rope;

  uint32_t group() const { return heads / kv_heads; }
  uint32_t most_positions() const { return learned_positions ? context : UINT32_MAX; }
  uint32_t q_dim() const { return heads * head_dim; }
  uint32_t kv_dim() const { return kv_heads * head_dim; }
};

// Reads `<arch>.*` keys. Errors name the key and the value; every number is bounded so that no
// later product overflows.
base::Result<Config> read_config(const io::ModelFile& file);
// The rotary part, for architectures that have one; needs head_dim set.
base::Result<Rope> read_rope(const io::ModelFile& file, const Config& config);
// `<arch>.<key>`: the epsilon of the norms, 1e-5 if the file does not say.
base::Result<float> read_norm_eps(const io::ModelFile& file, const Config& config,
                                  const std::string& key);

}  // namespace kvick::model
