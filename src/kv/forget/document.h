#pragma once
// Whether a sequence begins with the document whose rows the policy kvzip drops.

#include <cstdint>
#include <span>

#include "kv/values/batch.h"

namespace kvick::kv {

// What is known of a sequence's first tokens.
struct Beginning {
  enum class Is : uint8_t {
    kNothing,   // no token yet
    kDocument,  // so far they are the document's
    // Nobody says which they are (Slot::tokens). Prompts always do; what only measures time or
    // memory with made-up tokens does not, and is to measure what a document takes.
    kUntold,
    kOther,  // another text
  };
  Is is = Is::kNothing;
  uint32_t differs = 0;  // kOther: the first token that is not the document's

  bool other() const { return is == Is::kOther; }
};

// Returns the beginning of a sequence of `length` tokens after it gets some more: those of `tokens`
// that `kept` names, or untold ones if `tokens` is empty.
Beginning follow(std::span<const Token> document, const Beginning& before, uint32_t length,
                 std::span<const Token> tokens, std::span<const uint32_t> kept);

}  // namespace kvick::kv
