#pragma once
// Sampling defaults that a model's file recommends.

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/sampling/sampling.h"
#include "io/file/model_file.h"

namespace kvick::engine {

// The keys general.sampling.temp, top_k, top_p, min_p and penalty_repeat of a GGUF file; in a
// Hugging Face folder they come from generation_config.json.
struct ModelSampling {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint32_t> top_k;
};

// Error: a value outside its range; names the key.
base::Result<ModelSampling> read_model_sampling(const io::ModelFile& file);

// Which values the user or the request has set.
struct GivenSampling {
  bool temperature = false, top_k = false, top_p = false, min_p = false, repetition_penalty = false;
};

// Sets the model's values where none was given. Temperature 0 stays exactly greedy: it does not
// take the model's repetition penalty, which would change the likeliest token.
void apply_model_sampling(const ModelSampling& model, const GivenSampling& given,
                          Sampling& sampling);

}  // namespace kvick::engine
