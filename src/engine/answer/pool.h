#pragma once
// Pools the final states of a text's tokens (model::States) into one vector.

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/core/config.h"

namespace kvick::engine {

using model::Pooling;

// Returns the pooling given at program start, else the model file's, else the last token's state
// (with encoders the mean).
Pooling pooling_of(const model::Config& config, std::optional<Pooling> asked);
// Returns which states are pooled for `kind`. For kRank: those that the model's scoring head reads.
Pooling states_of(const model::Config& config, Pooling kind);

// Adds states one by one in the order of the tokens, so that a text's vector has the same bits
// however its prompt was cut into steps.
class Pool {
 public:
  // tokens: of the text, at least 1. width: floats of a state.
  Pool(Pooling kind, uint32_t tokens, uint32_t width);

  // The first token whose state is missing. States before it are not needed again, even if the rows
  // of their tokens are lost.
  uint32_t next() const { return next_; }
  // One past the last token whose state is pooled.
  uint32_t end() const { return end_; }
  bool complete() const { return next_ == end_; }
  // Adds the state of token next(): [width].
  void add(std::span<const float> state);
  // Returns the pooled vector: [width]. Only once complete.
  std::vector<float> vector() const;

 private:
  uint32_t begin_, end_, next_;
  std::vector<double> sum_;
};

// The form in which a request wants its vector.
struct EmbeddingForm {
  uint32_t dimensions = 0;  // the first ones are kept; 0: all
  bool normalised = true;   // scaled to length 1, unless it is zero
};
void give_form(const EmbeddingForm& form, std::vector<float>& vector);

// Cosine similarity of two vectors of equal size; 0 if either is zero.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace kvick::engine
