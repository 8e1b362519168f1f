#pragma once
// --pooling: how the hidden states of a text become one vector.

#include <optional>

#include "cli/options/command.h"
#include "cli/options/command_line.h"
#include "engine/answer/pool.h"

namespace kvick::cli {

// An empty optional means the pooling that the model's file names.
void add_pooling_flag(const Command& command, std::optional<engine::Pooling>& pooling);

}  // namespace kvick::cli
