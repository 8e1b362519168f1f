#pragma once
// One vector of a text: its tokens' final states (model::States), pooled.

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/core/config.h"

namespace kvick::engine {

using model::Pooling;

// The pooling given at program start, else the model file's, else the last token (with encoders the
// mean).
Pooling pooling_of(const model::Config& config, std::optional<Pooling> asked);
// Which states are pooled for `kind`: if the model has a head that scores pairs, those it reads.
Pooling states_of(const model::Config& config, Pooling kind);

// Takes states one after the other, in the order of the tokens, however these come in steps: so a
// text's vector is the same bits however its prompt was cut.
class Pool {
 public:
  // tokens: of the text, at least one.
  Pool(Pooling kind, uint32_t tokens, uint32_t width);

  // The first token whose state is still to come. Those before it are not needed again, though
  // their rows were lost.
  uint32_t next() const { return next_; }
  // Behind the last one.
  uint32_t end() const { return end_; }
  bool complete() const { return next_ == end_; }
  // Of the token next(): [width].
  void add(std::span<const float> state);
  // Of all: [width]. Only once complete.
  std::vector<float> vector() const;

 private:
  uint32_t begin_, end_, next_;
  std::vector<double> sum_;
};

// The form in which a request wants its vector.
struct EmbeddingForm {
  uint32_t dimensions = 0;  // the first ones are kept; 0: all
  bool normalised = true;   // its length is 1 then, unless it is 0
};
void give_form(const EmbeddingForm& form, std::vector<float>& vector);

// Cosine similarity of two vectors of equal size; 0 if either is zero.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace kvick::engine
