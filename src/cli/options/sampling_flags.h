#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/options/command_line.h"
#include "engine/sampling/model_sampling.h"

namespace kvick::cli {

struct SamplingFlags {
  engine::Sampling sampling = {.min_p = 0.05F};
  std::optional<uint64_t> seed;
  std::vector<std::string> bias;  // TOKEN:BIAS
  std::vector<std::string> bad_words;
  int32_t dry_last = -1;  // DrySampling::window; -1: all
  // Each option with the member of GivenSampling that says whether it was given.
  std::vector<std::pair<Option, bool engine::GivenSampling::*>> own;
};

void add_sampling_flags(const Command& command, SamplingFlags& flags);

// Returns the settings of all flags but --bad-word. Values that no flag gives come from the model's
// file; without --seed the seed is random. Error: a malformed bias.
base::Result<engine::Sampling> sampling_of(const SamplingFlags& flags,
                                           const engine::ModelSampling& model);

}  // namespace kvick::cli
