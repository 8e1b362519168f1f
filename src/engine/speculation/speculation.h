#pragma once
// Speculative decoding (Leviathan et al. 2023; trees of draft tokens: Chen et al. 2024, Sequoia).
// Speculation is what all sequences of a service share; a Speculator belongs to one sequence. The
// caller that runs the steps asks a Speculator for draft tokens, computes them as rows of the same
// forward as the last token, and keeps the rows that verify() returns.
//
// Draft tokens never change an answer. It is drawn from the model's logits with the answer's own
// random numbers, as without draft tokens: a draft token x is accepted with the model's probability
// of x, as rejection sampling does with a draft token that was not drawn at random.

#include <exception>
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
  std::vector<double> chances;  // [nodes] chances_of() the tree
  uint32_t size() const { return static_cast<uint32_t>(tree.nodes.size()); }
  // Keeps draft tokens with a chance of at least `least`, at most the `most` likeliest.
  void keep(double least, uint32_t most);
  // Drops draft tokens that the constraint forbids. tokens: size of the vocabulary.
  void obey(const text::Constraint& form, size_t tokens);

 private:
  void keep(const std::vector<bool>& kept);
};

class Speculation;
struct DraftModel;
struct DraftWeights;
struct PromptMatches;

// Speculation for one sequence. The Speculation must outlive it.
class Speculator {
 public:
  Speculator(Speculation& all, const SpecOptions& options);
  void add(std::unique_ptr<Drafter> drafter) { drafters_.push_back(std::move(drafter)); }
  const Acceptance& acceptance() const { return acceptance_; }
  // Returns draft tokens after the text, within most and depth of both the ask and the options.
  // Also measures the last call's draft tokens against the tokens that the text has gained since.
  // plain: the step that the draft tokens would join; drafters that take time are left out if they
  // would not pay, apart from a trial now and then.
  Drafts propose(DraftAsk ask, const PlainStep& plain);
  const SpecOptions& options() const { return options_; }
  // Whether a drafter reads states: then see() must be called with all rows of the sequence.
  bool reads_states() const;
  // Returns what a drafter threw, for a report; null if none did. After a failure this sequence
  // drafts no more, and neither does any other with the draft model.
  std::exception_ptr see(const SeenRows& rows) noexcept;

 private:
  void learn(std::span<const Token> text);
  // Returns the seconds spent on reading much text, which later steps will not need; 0 otherwise.
  double draft(Drafter& drafter, DraftAsk ask, const PlainStep& plain, DraftTree& tree);
  bool tries(bool pays);

  Speculation& all_;
  SpecOptions options_;
  std::vector<std::unique_ptr<Drafter>> drafters_;
  Acceptance acceptance_;
  DraftTree last_;          // what was drafted last, with tokens that were not verified
  size_t last_length_ = 0;  // of the text at that time
  // For drafters that take time: steps that left them out, and how many may before a trial.
  uint32_t left_out_ = 0, patience_ = 0;
  size_t computed_length_ = 0;  // of the text when such a drafter drafted last
};

class Speculation {
 public:
  explicit Speculation(const Engine& engine,  // must outlive it
                       base::Clock now = base::steady_seconds);
  ~Speculation();
  // Takes the draft model that the options name, if any: `weights` if they are that model's;
  // otherwise loads it. There is one draft model at most, and no sequence may be using another. Its
  // rows are charged to `budget`, if there is one. Errors: a file that is no model or has another
  // vocabulary, layers that the model does not have.
  base::Status<> prepare(const SpecOptions& options,
                         std::shared_ptr<const DraftWeights> weights = nullptr,
                         std::shared_ptr<kv::Budget> budget = nullptr);
  // Checks whether begin() may be called with these options; any thread may call it. Errors: layers
  // that the model does not have, a draft model that is not loaded.
  base::Status<> check(const SpecOptions& options) const;
  // Returns a sequence's Speculator; null if the options are off. shares: whether it may use other
  // sequences' texts and rows. prompt: as in LookupDrafter.
  std::unique_ptr<Speculator> begin(const SpecOptions& options, bool shares = true,
                                    std::shared_ptr<PromptMatches> prompt = nullptr);
  // Call it before the speculators of one step propose: the draft model reads at most `tokens` of
  // their texts in this step, apart from short rests (SmallModelDrafter::kFewUnread). Without a
  // call, each text is read in pieces of SmallModelDrafter::kMostRead.
  void begin_step(size_t tokens);
  size_t vocabulary_tokens() const { return engine_.tokenizer().vocabulary().pieces.size(); }
  // Returns the memory of the draft model's rows; all 0 without a draft model.
  kv::Usage draft_usage() const;
  // Returns the seconds since the last use of the draft model's least recently used cached rows;
  // negative: it has none.
  double draft_idle_seconds() const;
  // shrink: evicts about `bytes` of the draft model's cached rows. give_up: drops all its rows, and
  // sequences that draft with them stop doing so. Both return the bytes freed.
  uint64_t shrink(uint64_t bytes);
  uint64_t give_up();
  // Call it if drafting threw: the draft model's rows may be wrong, so they are dropped. Sequences
  // that draft with it stop doing so; later ones get a new store.
  void distrust() noexcept;
  // Adds the text of a sequence that has ended; others may draft from it.
  void add_text(std::span<const Token> text);

  // Reports a step without prompt tokens to decide on drafting by gain. rows: the step with its
  // draft tokens; plain: the same step without them, which would have given plain.tokens.
  void observe(const StepShape& rows, const PlainStep& plain, uint32_t tokens, double seconds);
  // Adds seconds spent on drafting by gain; they are charged to the next step's draft tokens.
  void charge(double seconds) { drafting_ += seconds; }

  // Measured over all steps that observe() reports.
  StepCost cost;
  DraftAccount account;
  LevelCost level_cost;
  const base::Clock clock;
  // Over all sequences: new ones begin with these rates.
  Acceptance acceptance;

  // Tokens of texts that are remembered: 4 MiB for the tokens, 60 MiB with the index.
  static constexpr uint32_t kTextTokens = uint32_t{1} << 20;

 private:
  bool has_draft_model(const SpecOptions& options) const;

  const Engine& engine_;
  double drafting_ = 0;
  std::unique_ptr<DraftModel> draft_model_;
  std::shared_ptr<MatchIndex> texts_ = std::make_shared<MatchIndex>(kTextTokens);
};

}  // namespace kvick::engine
