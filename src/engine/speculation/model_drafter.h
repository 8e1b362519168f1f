#pragma once
// Draft tokens by a model: a smaller one, or the same model without some of its layers.

#include <memory>
#include <set>
#include <vector>

#include "engine/core/engine.h"
#include "engine/options/spec_options.h"
#include "engine/speculation/draft.h"

namespace kvick::engine {

// The weights of a draft model, for any number of services.
struct DraftWeights {
  std::string path;    // empty: the engine's own draft layer
  uint32_t words = 0;  // SpecOptions::words
  std::unique_ptr<const model::Model> model;
  // The tokens that it has logits of, and can draft; empty: all.
  std::vector<Token> outputs;
  bool are(const SpecOptions& options) const {
    return options.by_model() && path == options.model && words == options.words;
  }
  // Loads the engine's own draft layer, or the file SpecOptions::model. The latter drafts
  // SpecOptions::words tokens only: those that its file names as the most frequent, then the first
  // of the vocabulary. Errors: the engine's file has no draft layer; the file is no model, or has
  // other tokens than the engine.
  static base::Result<std::shared_ptr<const DraftWeights>> load(const Engine& engine,
                                                                const SpecOptions& options);
};

class SmallModelDrafter;

// A draft model with a store for its rows, for many sequences of one service.
struct DraftModel {
  std::shared_ptr<const DraftWeights> weights;
  // All drafters share it, one after the other, since its buffers are as large as a prompt's step.
  std::shared_ptr<model::Executor> executor;
  std::unique_ptr<kv::Store> store;
  std::set<SmallModelDrafter*> drafters;  // that use the store
  size_t may_read = SIZE_MAX;  // tokens that drafters may still read: Speculation::begin_step
  // A call of the store threw: it must not be used any more, and renew() replaces it.
  bool broken = false;
  // Frees a broken store with its rows; `store` is null afterwards.
  void drop_broken() noexcept;
  // Replaces a broken store. Returns false if that failed.
  bool renew(const Engine& engine) noexcept;
  // budget: its rows are charged to it; null: they are not charged.
  static base::Result<std::unique_ptr<DraftModel>> make(const Engine& engine,
                                                        std::shared_ptr<const DraftWeights> weights,
                                                        std::shared_ptr<kv::Budget> budget);

 private:
  base::Result<std::unique_ptr<kv::Store>> make_store(const Engine& engine) const;
  std::shared_ptr<kv::Budget> budget_;
};

// Grows a tree of the shape that is best by Acceptance, with one forward per level. Rows of draft
// tokens are never committed: the forward of each level computes all earlier draft tokens again, in
// a step that is dropped. That costs little time (a few rows take little longer than one) and no
// memory.
class ModelDrafter : public Drafter {
 public:
  // executor: of the drafting model; keeps nothing from one call to the next. outputs: the tokens
  // that it has logits of; empty: all. acceptance: determines the shape; the kind of rank 0 is
  // `first`.
  ModelDrafter(std::shared_ptr<model::Executor> executor, std::span<const Token> outputs,
               const Engine& engine, const Acceptance& acceptance, Kind first);
  void draft(const DraftAsk& ask, DraftTree& tree) override;
  std::vector<double> rates() const override;

  static constexpr uint32_t kRanks = 4;  // children of a node, at most

 protected:
  // Where forwards run. With `last`, row 0 of each is the text's last token; without, the logits
  // after that token are known.
  struct Ground {
    kv::Store* store = nullptr;  // null: nothing can be drafted
    kv::SeqId seq{};
    uint32_t past = 0;
    bool last = false;
    const std::vector<bool>* skipped = nullptr;
    bool by_states = false;                   // rows also depend on the state before the token
    const model::Adapter* adapter = nullptr;  // as in model::Slot
    float adapter_scale = 1;
  };
  // Prepares a draft. Unless Ground::last, the executor then has the logits after the text, and
  // with Ground::by_states also the state.
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
  size_t tokens_;                // size of the vocabulary; output layers may have more rows
  std::vector<float> by_token_;  // [vocab], if the model has no logits of some tokens
};

class SmallModelDrafter : public ModelDrafter {
 public:
  // shares: whether it may share rows with other sequences.
  SmallModelDrafter(DraftModel& small, const Engine& engine, const Acceptance& acceptance,
                    bool shares, Kind first = kModelKinds);
  ~SmallModelDrafter() override;
  // Frees its rows and drafts no more: if it read the text again, memory would soon be short again.
  void give_up() noexcept;
  bool is_behind() const override { return behind_; }

  // The most tokens of the text that one draft() reads: as many as Session::kPrefillChunk, since
  // all other answers of the step wait for it.
  static constexpr size_t kMostRead = 512;
  // So short a rest is read whatever may_read is: an answer does not wait for the texts of others.
  static constexpr size_t kFewUnread = 32;

 protected:
  DraftModel& small_;
  std::optional<kv::SeqId> seq_;  // none: it has given up
  const bool shares_;
  bool behind_ = false;  // it has read a part of the text, and the rest will follow

 private:
  Ground ground(const DraftAsk& ask) override;
  void take_cached(std::span<const Token> text);
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
