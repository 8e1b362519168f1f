#pragma once
// Where a prompt leaves checkpoints (kv::Checkpoints): there prompts that begin like it will leave
// it. That is at the borders of messages, the last of them right before the answer, and where an
// earlier prompt was left already. See docs/adr/0059-checkpoints.md.

#include <optional>
#include <span>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::engine {

// A checkpoint costs a step of its own and memory, and saves its distance to the one before.
inline constexpr uint32_t kLeastCutTokens = 16;
inline constexpr uint32_t kFirstPowerCut = 64;  // where a prompt has no borders

// The token that every message begins with, as the model's template writes them: none if there is
// no template, or it begins messages with plain text.
std::optional<Token> turn_token_of(const Engine& engine);

// What is known of a prompt besides its tokens.
struct KnownPrompt {
  uint32_t cached = 0;  // tokens that need not be read
  uint32_t seen = 0;    // tokens that an earlier prompt began with: kv::Opened
};

// Ascending, at least kLeastCutTokens behind what is cached and before the last token; some 20 at
// most, the most of them near the end. Without turn_token, or if the prompt has none, messages
// begin with its last control token; without one of these, cuts are at powers of two and at the
// end.
std::vector<uint32_t> cuts_of(std::span<const Token> prompt, const KnownPrompt& known,
                              std::optional<Token> turn_token, const text::Tokenizer& tokenizer);

}  // namespace kvick::engine
