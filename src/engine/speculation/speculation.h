#pragma once
// Speculative decoding (Leviathan et al. 2023; trees of draft tokens: Chen et al. 2024, Sequoia):
// what all sequences of a service share, and one sequence's part. Who runs the steps asks a
// Speculator for draft tokens, computes them as rows of the same forward as the last token, and
// keeps those that verify() leaves.
//
// Which draft tokens are made never changes an answer. It is drawn from the model's logits by the
// answer's own random numbers, as without draft tokens: a draft x is kept with the model's
// probability of x, which is what rejection sampling gives a draft that was not drawn at random.

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/core/engine.h"
#include "engine/core/step_cost.h"
#include "engine/options/spec_options.h"
#include "engine/speculation/draft.h"
#include "engine/speculation/draft_account.h"
#include "engine/speculation/draft_choice.h"
#include "engine/speculation/match_index.h"

namespace kvick::engine {

struct Drafts {
  DraftTree tree;
  std::vector<double> chances;  // that a node becomes a token of the answer: chances_of
  uint32_t size() const { return static_cast<uint32_t>(tree.nodes.size()); }
  // Keeps draft tokens with a chance of at least `least`, at most the `most` likeliest.
  void keep(double least, uint32_t most);
  // Drops those that the constraint forbids. tokens: size of the vocabulary.
  void obey(const text::Constraint& form, size_t tokens);

 private:
  void keep(const std::vector<bool>& kept);
};

class Speculation;
struct DraftModel;
struct DraftWeights;
struct PromptMatches;

// One sequence's. The Speculation outlives it.
class Speculator {
 public:
  Speculator(Speculation& all, const SpecOptions& options);
  void add(std::unique_ptr<Drafter> drafter) { drafters_.push_back(std::move(drafter)); }
  const Acceptance& acceptance() const { return acceptance_; }
  // Draft tokens behind the text, at most ask.most of those that its options allow; what has come
  // since the last call is measured against the draft tokens of then. most and depth of the ask are
  // lowered to the options'. plain: the step that draft tokens would come to; by it drafters that
  // take time are left out where that would not pay, but for a trial now and then.
  Drafts propose(DraftAsk ask, const PlainStep& plain);
  const SpecOptions& options() const { return options_; }
  // Whether some drafter reads states: then see() is called with all rows of the sequence. A
  // drafter that throws drafts no more.
  bool reads_states() const;
  void see(const SeenRows& rows);

 private:
  void learn(std::span<const Token> text);
  // Returns seconds that it took and other steps' draft tokens will not: reading much text.
  double draft(Drafter& drafter, DraftAsk ask, const PlainStep& plain, DraftTree& tree);
  bool tries(bool pays);

  Speculation& all_;
  SpecOptions options_;
  std::vector<std::unique_ptr<Drafter>> drafters_;
  Acceptance acceptance_;
  DraftTree last_;          // what was drafted last, with what was not verified
  size_t last_length_ = 0;  // of the text then
  // Of drafters that take time: steps that they were left out of, and at most before a trial.
  uint32_t left_out_ = 0, patience_ = 0;
  size_t computed_length_ = 0;  // of the text when one of them drafted last
};

class Speculation {
 public:
  explicit Speculation(const Engine& engine,  // which outlives it
                       base::Clock now = base::steady_seconds);
  ~Speculation();
  // Takes the draft model that the options name, if they do: `weights` if these are its, or else it
  // is loaded; one at most is. Its rows are charged to `budget`, if there is one. Errors: a file
  // that is no model or has another vocabulary, layers that the model has not. No sequence may be
  // using another draft model.
  base::Status<> prepare(const SpecOptions& options,
                         std::shared_ptr<const DraftWeights> weights = nullptr,
                         std::shared_ptr<kv::Budget> budget = nullptr);
  // Whether begin() may be called with them; any thread may ask. Error: layers that the model has
  // not, a draft model that is not loaded.
  base::Status<> check(const SpecOptions& options) const;
  // Null if they are off. shares: whether it may see other sequences' texts. prompt: as in
  // LookupDrafter.
  std::unique_ptr<Speculator> begin(const SpecOptions& options, bool shares = true,
                                    std::shared_ptr<PromptMatches> prompt = nullptr);
  size_t vocabulary_tokens() const { return engine_.tokenizer().vocabulary().pieces.size(); }
  // Memory of the draft model's rows; all 0 without one.
  kv::Usage draft_usage() const;
  // shrink: evicts about `bytes` of the draft model's cached rows. give_up: drops all its rows, and
  // sequences that draft with them stop doing so. Both return the bytes freed.
  uint64_t shrink(uint64_t bytes);
  uint64_t give_up();
  // Something threw while draft tokens were made: the draft model's rows are not to be trusted. Its
  // sequences draft by it no more; later ones do.
  void distrust() noexcept;
  // A sequence has ended: others may draft by it.
  void add_text(std::span<const Token> text);

  // Reports a step without prompt tokens to decide on drafting by gain. rows: the step with its
  // draft tokens; plain: the same step without them, which would have given plain.tokens.
  void observe(const StepShape& rows, const PlainStep& plain, uint32_t tokens, double seconds);
  // Adds seconds spent on drafting by gain; they are charged to the next step's draft tokens.
  void charge(double seconds) { drafting_ += seconds; }

  // By all steps that whoever runs them reports.
  StepCost cost;
  DraftAccount account;
  LevelCost level_cost;
  const base::Clock clock;
  // Of all sequences: what new ones begin with.
  Acceptance acceptance;

  // Tokens of texts that are remembered: 4 MiB of them, 60 MiB with the index.
  static constexpr uint32_t kTextTokens = uint32_t{1} << 20;

 private:
  bool has_draft_model(const SpecOptions& options) const;

  const Engine& engine_;
  double drafting_ = 0;
  std::unique_ptr<DraftModel> draft_model_;
  std::shared_ptr<MatchIndex> texts_ = std::make_shared<MatchIndex>(kTextTokens);
};

}  // namespace kvick::engine
