#pragma once

#include <string>

#include "base/result.h"
#include "cli/options/command_line.h"
#include "engine/options/spec_options.h"

namespace kvick::cli {

// --spec, with what there is in its help.
void add_spec_flag(const Command& command, std::string& spec);

// What it asks for; the draft model as a path. Errors: as of parse_spec_options; a model that is
// not here.
base::Result<engine::SpecOptions> spec_of(const std::string& spec);

}  // namespace kvick::cli
