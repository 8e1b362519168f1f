#pragma once
// Which tokens may come next in an answer that must have a given form, such as JSON of a schema.

#include <cstdint>
#include <memory>
#include <span>

namespace kvick::text {

// One answer's state. Copies are independent, one per choice of a request.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual std::unique_ptr<Constraint> clone() const = 0;
  // Sets the logits of the tokens that may not come next to minus infinity: [vocab], one per token
  // of the tokenizer it was made for. Tokens that end the generation may come only if the answer
  // is complete. At least one token is always left.
  virtual void mask(std::span<float> logits) = 0;
  // Advances by a token that mask() allowed.
  virtual void accept(int32_t token) = 0;
  // The answer so far is a whole one.
  virtual bool complete() const = 0;
};

}  // namespace kvick::text
