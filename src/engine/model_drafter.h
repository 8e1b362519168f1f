#pragma once
// Guesses by a model: a smaller one, or the same without some of its layers.

#include <memory>
#include <set>
#include <vector>

#include "engine/draft.h"
#include "engine/engine.h"

namespace kvick::engine {

// A draft model, for any number of services.
struct DraftWeights {
  std::string path;
  std::unique_ptr<const model::Model> model;
  // Errors: a file that is no model, or one whose tokens are not the engine's.
  static base::Result<std::shared_ptr<const DraftWeights>> load(const Engine& engine,
                                                                const std::string& path);
};

class SmallModelDrafter;

// And the rows that it keeps, in a store of its own; for many sequences of one service.
struct DraftModel {
  std::shared_ptr<const DraftWeights> weights;
  std::unique_ptr<kv::Store> store;
  std::set<SmallModelDrafter*> drafters;  // that keep rows in it
  // budget: what its rows are charged to; null: to nobody.
  static base::Result<std::unique_ptr<DraftModel>> make(const Engine& engine,
                                                        std::shared_ptr<const DraftWeights> weights,
                                                        std::shared_ptr<kv::Budget> budget);
};

// Grows a tree of the shape that Acceptance has shown to be the best, a level by a forward. Rows of
// guesses are never committed: each level's forward computes all guesses before it again, in a step
// that is dropped, which is cheaper than it sounds (a few rows cost little more than one) and takes
// no memory.
class ModelDrafter : public Drafter {
 public:
  // acceptance: what the shape follows; kinds of ranks begin with `first`.
  ModelDrafter(const model::Model& model, const Engine& engine, const Acceptance& acceptance,
               Kind first);
  void draft(const DraftAsk& ask, DraftTree& tree) override;
  std::vector<double> rates() const override;

  static constexpr uint32_t kRanks = 4;  // children of a node, at most

 protected:
  // Where forwards take place. Row 0 of them is the text's last token if `last` is set; else its
  // logits are known.
  struct Ground {
    kv::Store* store = nullptr;  // null: nothing can be guessed
    kv::SeqId seq{};
    uint32_t past = 0;
    bool last = false;
    const std::vector<bool>* skipped = nullptr;
  };
  // Logits behind the text go into logits_ unless Ground::last.
  virtual Ground ground(const DraftAsk& ask) = 0;

  const model::Model& model_;
  model::Workspace workspace_;
  std::vector<float> logits_;  // [rows][vocab]

 private:
  struct Growing;
  bool forward_level(Growing& growing, const DraftTree& tree, uint32_t level);
  void add_children(Growing& growing, DraftTree& tree, int32_t parent, std::span<float> logits);

  const Acceptance& acceptance_;
  Kind first_;
  size_t tokens_;  // of the vocabulary; output layers may have more rows
};

class SmallModelDrafter final : public ModelDrafter {
 public:
  SmallModelDrafter(DraftModel& small, const Engine& engine, const Acceptance& acceptance);
  ~SmallModelDrafter() override;
  // Gives its rows back and guesses no more: reading the text again would soon be in the way again.
  void give_up();

 private:
  Ground ground(const DraftAsk& ask) override;
  bool read(std::span<const Token> tokens);

  DraftModel& small_;
  std::optional<kv::SeqId> seq_;  // none: it has given up
  std::vector<Token> committed_;
};

class SkipDrafter final : public ModelDrafter {
 public:
  SkipDrafter(const Engine& engine, std::vector<bool> skipped, const Acceptance& acceptance)
      : ModelDrafter(engine.model(), engine, acceptance, kSkipKinds),
        skipped_(std::move(skipped)) {}

 private:
  Ground ground(const DraftAsk& ask) override;
  std::vector<bool> skipped_;  // [layers]
};

}  // namespace kvick::engine
