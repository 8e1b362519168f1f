#pragma once
// Draft tokens as rows of a forward, and which of them become tokens.

#include <span>
#include <vector>

#include "base/function_ref.h"
#include "engine/answer/answer_writer.h"
#include "engine/speculation/draft.h"
#include "model/core/executor.h"

namespace kvick::engine {

// The fresh rows of one sequence: its last token, then draft tokens behind it. Row i + 1 is node i.
struct FreshTokens {
  std::vector<Token> tokens;
  std::vector<int32_t> parents;
  FreshTokens(Token last, const DraftTree& tree);
};

// States of the kept rows of a step, counted from row `first`; all its states must be wanted.
std::vector<float> states_of_rows(const model::Executor& executor, std::span<const uint32_t> kept,
                                  size_t first = 0);

// The most draft tokens that a sequence's next step may carry so that each token sees what it would
// see if it came alone: none past the context, past a window that moves on, or past the point where
// rows become old. Unless `grow`, none that makes the store grow sooner than it has to.
uint32_t draft_room(kv::Store& store, kv::SeqId seq, bool grow);

// Of a sequence: rows that it has and that it may have.
struct RowsBefore {
  uint32_t committed = 0, most = 0;
};

// The writer draws each token from the model's logits, and goes on from the row of that token if it
// was drafted; so what it writes does not depend on the draft tokens. logits: [rows][stride].
// on_written is called
// for each token; false ends it. Returns the rows to keep: those of tokens that were written
// before the last one.
std::vector<uint32_t> verify(AnswerWriter& writer, const DraftTree& tree, std::span<float> logits,
                             const RowsBefore& before,
                             base::FunctionRef<bool(WrittenTokens&&)> on_written);

}  // namespace kvick::engine
