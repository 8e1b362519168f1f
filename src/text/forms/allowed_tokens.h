#pragma once
// Constrains answers to a set of tokens.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "text/grammar/constraint.h"

namespace kvick::text {

// Returns a constraint that allows these tokens at every step and no others. A token that ends the
// generation is allowed only if it is among them. tokens: at least one, each below `vocab`.
std::shared_ptr<const Constraint> allowed_tokens(const std::vector<int32_t>& tokens, size_t vocab);

}  // namespace kvick::text
