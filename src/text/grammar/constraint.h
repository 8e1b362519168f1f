#pragma once
// Decides which tokens may come next in an answer of a given form, such as JSON that matches a
// schema.

#include <cstdint>
#include <memory>
#include <span>

namespace kvick::text {

// The state of one answer. Copies are independent: a request has one per choice.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual std::unique_ptr<Constraint> clone() const = 0;
  // Sets the logits of the tokens that may not come next to minus infinity. logits: [vocab] of the
  // tokenizer that the constraint was made for. Tokens that end the generation are allowed only if
  // the answer is complete. At least one token is always allowed.
  virtual void mask(std::span<float> logits) = 0;
  // Advances by a token that mask() allowed.
  virtual void accept(int32_t token) = 0;
  // Whether the answer so far is complete.
  virtual bool complete() const = 0;
};

}  // namespace kvick::text
