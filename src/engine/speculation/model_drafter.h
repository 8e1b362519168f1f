#pragma once
// Draft tokens by a model: a smaller one, or the same without some of its layers.

#include <memory>
#include <set>
#include <vector>

#include "engine/core/engine.h"
#include "engine/options/spec_options.h"
#include "engine/speculation/draft.h"

namespace kvick::engine {

// A draft model, for any number of services.
struct DraftWeights {
  std::string path;    // empty: it is the engine's own layer for that
  uint32_t words = 0;  // as they were asked for
  std::unique_ptr<const model::Model> model;
  // The tokens that its logits are for, the only ones that it drafts; empty: all.
  std::vector<Token> outputs;
  bool are(const SpecOptions& options) const {
    return options.by_model() && path == options.model && words == options.words;
  }
  // The engine's own layer for that, or SpecOptions::model, to draft SpecOptions::words tokens:
  // those that its file names as the most frequent, then the first of the vocabulary. Errors: the
  // engine's file has no such layer; a file that is no model, or one whose tokens are not the
  // engine's.
  static base::Result<std::shared_ptr<const DraftWeights>> load(const Engine& engine,
                                                                const SpecOptions& options);
};

class SmallModelDrafter;

// And the rows that it keeps, in a store of its own; for many sequences of one service.
struct DraftModel {
  std::shared_ptr<const DraftWeights> weights;
  // Of all drafters, one after the other: what it keeps is as large as a step that reads a prompt.
  std::shared_ptr<model::Executor> executor;
  std::unique_ptr<kv::Store> store;
  std::set<SmallModelDrafter*> drafters;  // that keep rows in it
  // A call of the store threw: nobody uses it any more, and renew() makes another.
  bool broken = false;
  // Frees a broken store with its rows; `store` is null afterwards.
  void drop_broken() noexcept;
  // False: a broken store could not be replaced.
  bool renew(const Engine& engine) noexcept;
  // budget: what its rows are charged to; null: to nobody.
  static base::Result<std::unique_ptr<DraftModel>> make(const Engine& engine,
                                                        std::shared_ptr<const DraftWeights> weights,
                                                        std::shared_ptr<kv::Budget> budget);

 private:
  base::Result<std::unique_ptr<kv::Store>> make_store(const Engine& engine) const;
  std::shared_ptr<kv::Budget> budget_;
};

// Grows a tree of the shape that Acceptance has shown to be the best, a level by a forward. Rows of
// draft tokens are never committed: each level's forward computes all draft tokens before it again,
// in a step that is dropped, which is cheaper than it sounds (a few rows cost little more than one)
// and takes no memory.
class ModelDrafter : public Drafter {
 public:
  // executor: of the model that drafts; nothing in it lasts from one call to the next. outputs: the
  // tokens that its logits are of, empty: all. acceptance: what the shape follows; kinds of ranks
  // begin with `first`.
  ModelDrafter(std::shared_ptr<model::Executor> executor, std::span<const Token> outputs,
               const Engine& engine, const Acceptance& acceptance, Kind first);
  void draft(const DraftAsk& ask, DraftTree& tree) override;
  std::vector<double> rates() const override;

  static constexpr uint32_t kRanks = 4;  // children of a node, at most

 protected:
  // Where forwards take place. Row 0 of them is the text's last token if `last` is set; else its
  // logits are known.
  struct Ground {
    kv::Store* store = nullptr;  // null: nothing can be drafted
    kv::SeqId seq{};
    uint32_t past = 0;
    bool last = false;
    const std::vector<bool>* skipped = nullptr;
    bool by_states = false;                   // each token's row is made of the state before it too
    const model::Adapter* adapter = nullptr;  // as in model::Slot
    float adapter_scale = 1;
  };
  // The executor then has the logits behind the text, unless Ground::last, and the state if
  // Ground::by_states.
  virtual Ground ground(const DraftAsk& ask) = 0;

  std::shared_ptr<model::Executor> executor_;

 private:
  struct Growing;
  bool forward_level(Growing& growing, const DraftTree& tree, uint32_t level);
  std::vector<float> states_before(const Growing& growing, const DraftTree& tree);
  void add_children(Growing& growing, DraftTree& tree, int32_t parent, std::span<float> logits);
  std::vector<Token> likeliest(std::span<const float> logits, size_t n) const;
  std::span<float> by_token(std::span<float> logits);

  std::span<const Token> outputs_;
  const Acceptance& acceptance_;
  Kind first_;
  size_t tokens_;                // of the vocabulary; output layers may have more rows
  std::vector<float> by_token_;  // [vocab], where the model's logits are not of all
};

class SmallModelDrafter : public ModelDrafter {
 public:
  // shares: whether rows may be those of other sequences, and theirs.
  SmallModelDrafter(DraftModel& small, const Engine& engine, const Acceptance& acceptance,
                    bool shares, Kind first = kModelKinds);
  ~SmallModelDrafter() override;
  // Gives its rows back and drafts no more: reading the text again would soon be in the way again.
  void give_up() noexcept;

 protected:
  DraftModel& small_;
  std::optional<kv::SeqId> seq_;  // none: it has given up
  const bool shares_;

 private:
  Ground ground(const DraftAsk& ask) override;
  bool read(std::span<const Token> tokens);

  std::vector<Token> committed_;
};

class SkipDrafter final : public ModelDrafter {
 public:
  SkipDrafter(const Engine& engine, std::vector<bool> skipped, const Acceptance& acceptance)
      : ModelDrafter(std::make_shared<model::Executor>(engine.make_executor()), {}, engine,
                     acceptance, kSkipKinds),
        skipped_(std::move(skipped)) {}

 private:
  Ground ground(const DraftAsk& ask) override;
  std::vector<bool> skipped_;  // [layers]
};

}  // namespace kvick::engine
