#pragma once
// Small models of the shape of known families.

#include <string>
#include <string_view>
#include <vector>

#include "make_model/spec.h"

namespace kvick::tools {

// Names for made_family: a family, or a variant of one.
std::vector<std::string> family_names();
// Few and small layers, of every kind that the family's models have; windows and contexts so short
// that 96 tokens reach beyond them. Errors: no such name (the message lists them).
base::Result<Spec> made_family(std::string_view name);

}  // namespace kvick::tools
