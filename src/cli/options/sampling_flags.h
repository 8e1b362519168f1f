#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/command_line.h"
#include "engine/answer/sampler.h"

namespace kvick::cli {

struct SamplingFlags {
  engine::Sampling sampling;
  std::optional<uint64_t> seed;
  std::vector<std::string> bias;  // TOKEN:BIAS
};

void add_sampling_flags(const Command& command, SamplingFlags& flags);

// What the flags ask for; without --seed a random one. Error: a malformed bias.
base::Result<engine::Sampling> sampling_of(const SamplingFlags& flags);

}  // namespace kvick::cli
