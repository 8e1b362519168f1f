#pragma once
// Turns draft tokens into rows of a forward, and verifies which of them become tokens.

#include <span>
#include <vector>

#include "base/function_ref.h"
#include "engine/answer/answer_writer.h"
#include "engine/speculation/draft.h"
#include "model/core/executor.h"

namespace kvick::engine {

// The fresh rows of one sequence: its last token, then the draft tokens. Row i + 1 is node i.
struct FreshTokens {
  std::vector<Token> tokens;
  std::vector<int32_t> parents;
  FreshTokens(Token last, const DraftTree& tree);
};

// Returns the states of a step's kept rows, counted from row `first`. The step must have all
// states.
std::vector<float> states_of_rows(const model::Executor& executor, std::span<const uint32_t> kept,
                                  size_t first = 0);

// Returns the most draft tokens of a sequence's next step with which each token still sees the same
// rows as in a step of its own: no more than fit into the context and the window, and none past the
// point where rows become old. Unless `grow`, also none that makes the store grow early.
uint32_t draft_room(kv::Store& store, kv::SeqId seq, bool grow);

// Rows that a sequence has, and the most that it may have.
struct RowsBefore {
  uint32_t committed = 0, most = 0;
};

// Lets the writer draw each token from the model's logits, and continues from the row of that token
// if it was drafted: so the answer does not depend on the draft tokens. logits: [rows][stride].
// Calls on_written for each token, until it returns false. Returns the rows to keep: those of the
// last token before the step and of the accepted draft tokens.
std::vector<uint32_t> verify(AnswerWriter& writer, const DraftTree& tree, std::span<float> logits,
                             const RowsBefore& before,
                             base::FunctionRef<bool(WrittenTokens&&)> on_written);

}  // namespace kvick::engine
