#pragma once
// Prompts like those of conversations, and made-up models of a family to run them.

#include "make_model/families.h"

#include "engine/core/test_engine.h"
#include "engine/prefix/prompt_cuts.h"

namespace kvick::engine::test {

inline std::unique_ptr<Engine> engine_of_family(const char* family, uint32_t context) {
  tools::Spec spec = *tools::made_family(family);
  spec.context = context;
  return engine_of(*tools::checked(spec));
}

// Returns a message of `count` tokens, including the `turn` token that begins it.
inline std::vector<Token> message_of(Token turn, uint32_t count, uint32_t seed) {
  std::vector<Token> tokens = {turn};
  while (tokens.size() < count)
    tokens.push_back(static_cast<Token>(10 + (tokens.size() * 37 + seed * 101) % 300));
  return tokens;
}

inline void append(std::vector<Token>& text, std::span<const Token> more) {
  text.insert(text.end(), more.begin(), more.end());
}

// Returns families whose models do not keep every row: some of their layers keep a state.
inline std::vector<const char*> families_with_states() {
#if defined(KVICK_SANITIZED)
  return {"lfm2"};
#else
  return {"lfm2", "mamba2", "granitehybrid", "qwen35"};
#endif
}

// Conversations with a model of the family that is the test's parameter.
class ConversationTest : public testing::TestWithParam<const char*> {
 protected:
  explicit ConversationTest(uint32_t context) : engine_(engine_of_family(GetParam(), context)) {}

  std::vector<Token> message(uint32_t count, uint32_t seed) const {
    return message_of(turn_, count, seed);
  }
  // Appends the end of an answer. Without its thoughts it begins differently, and so does the next
  // prompt.
  void append_without_thoughts(std::vector<Token>& history,
                               const std::vector<Token>& answer) const {
    append(history, begin_);
    history.push_back(answer.front() == 20 ? 21 : 20);
    append(history, std::span(answer).last(8));
  }

  const std::unique_ptr<Engine> engine_;
  const Token turn_ = turn_token_of(*engine_).value_or(1);
  const std::vector<Token> begin_ = {turn_, 7, 8};  // begins an answer
  uint64_t last_ = 0;                               // the number of the last job
};

}  // namespace kvick::engine::test
