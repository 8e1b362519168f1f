#pragma once
// Constrains the part of an answer that follows the model's thoughts.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "text/grammar/constraint.h"

namespace kvick::text {

// The tokens that tell where thoughts end.
struct ThoughtEnd {
  int32_t mark = 0;               // closes the thoughts
  std::optional<int32_t> spaces;  // white space that models write between the mark and the answer
  std::vector<int32_t> ends;      // all tokens that end a generation
};

// Returns a constraint for an answer that begins inside thoughts. Thoughts may be any text, but the
// generation cannot end within them. Behind the mark, and at most one token of `spaces`, `answer`
// constrains the rest.
std::shared_ptr<const Constraint> behind_thoughts(std::shared_ptr<const Constraint> answer,
                                                  ThoughtEnd end);

}  // namespace kvick::text
