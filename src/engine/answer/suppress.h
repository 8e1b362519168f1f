#pragma once

#include <span>

#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// Sets the logits of the model's suppressed tokens to minus infinity. begins: the token is an
// answer's first. logits: [vocabulary], with minus infinity for the tokens that a constraint
// forbids. If all others are suppressed, nothing changes, so that the constraint holds.
void suppress(const text::Vocabulary& vocabulary, bool begins, std::span<float> logits);

}  // namespace kvick::engine
