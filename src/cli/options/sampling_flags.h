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
  // Whether the line has the options of GivenSampling's members.
  std::vector<std::pair<Option, bool engine::GivenSampling::*>> own;
};

void add_sampling_flags(const Command& command, SamplingFlags& flags);

// The settings that the flags give, all but --bad-word. What no flag gives is as the model's file
// says; without --seed the seed is random. Error: a malformed bias.
base::Result<engine::Sampling> sampling_of(const SamplingFlags& flags,
                                           const engine::ModelSampling& model);

}  // namespace kvick::cli
