#pragma once
// How a model's file says that its answers are best sampled.

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/sampling/sampling.h"
#include "io/file/model_file.h"

namespace kvick::engine {

// Keys general.sampling.temp, top_k, top_p, min_p and penalty_repeat of GGUF files; in a Hugging
// Face folder generation_config.json has them.
struct ModelSampling {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint32_t> top_k;
};

// Error: a value outside its range, with its key.
base::Result<ModelSampling> read_model_sampling(const io::ModelFile& file);

// The values that a person or a request has given.
struct GivenSampling {
  bool temperature = false, top_k = false, top_p = false, min_p = false, repetition_penalty = false;
};

// Puts the model's values where none was given. Temperature 0 stays exact: the model's penalty of
// repetitions, which changes which token is the likeliest, is left out then.
void apply_model_sampling(const ModelSampling& model, const GivenSampling& given,
                          Sampling& sampling);

}  // namespace kvick::engine
