#pragma once
// --pooling: how a text's states become one vector.

#include <optional>

#include "cli/options/command.h"
#include "cli/options/command_line.h"
#include "engine/answer/pool.h"

namespace kvick::cli {

// Nothing: as the model's file says.
void add_pooling_flag(const Command& command, std::optional<engine::Pooling>& pooling);

}  // namespace kvick::cli
