#pragma once
// Small models in the shape of known families.

#include <string>
#include <string_view>
#include <vector>

#include "make_model/spec.h"

namespace kvick::tools {

// Returns the names that made_family takes: families and variants of families.
std::vector<std::string> family_names();
// Returns a spec with few and small layers, of every kind that the family's models have. Windows
// and contexts of training are shorter than 96 tokens, so that tests reach beyond them. Errors: an
// unknown name (the message lists the names).
base::Result<Spec> made_family(std::string_view name);

}  // namespace kvick::tools
