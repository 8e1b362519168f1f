#pragma once

#include <string>

#include "base/result.h"
#include "cli/options/command_line.h"
#include "engine/options/spec_options.h"

namespace kvick::cli {

// Adds --spec, whose help lists the ways to draft.
void add_spec_flag(const Command& command, std::string& spec);

// Parses --spec and resolves the draft model to a path. Errors: those of parse_spec_options; a
// draft model that is not in the cache.
base::Result<engine::SpecOptions> spec_of(const std::string& spec);

}  // namespace kvick::cli
