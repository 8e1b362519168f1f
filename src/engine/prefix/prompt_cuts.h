#pragma once
// Chooses where a prompt leaves checkpoints (kv::Checkpoints): where later prompts are likely to
// diverge from it. That is at the borders of messages, the last one right before the answer, and
// where it diverges from an earlier prompt itself. See docs/adr/0059-checkpoints.md.

#include <optional>
#include <span>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::engine {

// Least tokens between checkpoints: fewer would not repay a checkpoint's memory and its own step.
inline constexpr uint32_t kLeastCutTokens = 16;
inline constexpr uint32_t kFirstPowerCut = 64;  // for prompts without message borders

// Returns the token with which the model's chat template begins every message: none if there is no
// template, or it begins messages with plain text.
std::optional<Token> turn_token_of(const Engine& engine);

// What is known of a prompt besides its tokens.
struct KnownPrompt {
  uint32_t cached = 0;  // tokens that need not be computed
  uint32_t seen = 0;    // tokens that it shares with an earlier prompt: kv::Opened
};

// Returns cuts, ascending, at least kLeastCutTokens after the cached tokens and before the last
// token: about 20 at most, most of them near the end. Without turn_token, or if the prompt has
// none, each occurrence of the prompt's last control token counts as the beginning of a message.
// Without control tokens, cuts are at powers of two and at the end.
std::vector<uint32_t> cuts_of(std::span<const Token> prompt, const KnownPrompt& known,
                              std::optional<Token> turn_token, const text::Tokenizer& tokenizer);

}  // namespace kvick::engine
