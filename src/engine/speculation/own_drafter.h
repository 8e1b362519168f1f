#pragma once
// Draft tokens by the model's own draft layer (multi-token prediction: DeepSeek-V3, section 2.2).

#include "engine/speculation/model_drafter.h"

namespace kvick::engine {

// The layer makes the row of a token from the token and the model's state before it, and predicts
// the next token; for further tokens it continues from its own states. Its rows follow the model's:
// if the model took a prefix from its cache, they begin where the model's steps began, unless they
// are cached too.
class OwnDrafter final : public SmallModelDrafter {
 public:
  OwnDrafter(DraftModel& own, const Engine& engine, const Acceptance& acceptance, bool shares);
  bool reads_states() const override { return true; }
  void see(const SeenRows& rows) override;

  // The most prompt tokens whose rows wait to be computed, with their states in memory.
  static constexpr size_t kMostWaiting = 512;
  // If its cached rows end at most this many tokens before the model's, the rows between them are
  // computed without their states.
  static constexpr size_t kMostUnknown = 64;

 private:
  Ground ground(const DraftAsk& ask) override;
  void begin(std::span<const Token> before);
  bool read(std::span<const Token> text);
  size_t dim() const { return executor_->model().config().dim; }

  size_t first_ = 0;  // the token of the text that has the first row
  size_t read_ = 0;   // tokens up to here have rows, or will never have any
  size_t seen_ = 0;   // tokens up to here have states
  // States of the tokens [read_ - 1, seen_), from which the rows of [read_, seen_] are made. The
  // state before the first token is zeros.
  std::vector<float> states_;
};

}  // namespace kvick::engine
