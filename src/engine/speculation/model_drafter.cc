#include "engine/speculation/model_drafter.h"

#include <algorithm>
#include <limits>

#include "engine/sampling/sampler.h"
#include "engine/speculation/draft_choice.h"
#include "engine/speculation/verify.h"
#include "model/core/vocabulary.h"

namespace kvick::engine {

using base::fail;

namespace {

// Key in a draft model's file: tokens, by how often the model that it drafts for generates them.
constexpr std::string_view kWordsKey = "kvick.draft.words";

base::Result<std::vector<Token>> outputs_of(const io::ModelFile& file, uint32_t words,
                                            size_t vocabulary) {
  std::vector<Token> outputs;
  std::vector<bool> taken(vocabulary);
  const std::vector<int64_t>* named = file.get_ints(kWordsKey);
  if (named == nullptr && words == 0) return outputs;
  const size_t most = std::min<size_t>(words == 0 ? named->size() : words, vocabulary);
  const auto take = [&](size_t token) {
    if (outputs.size() < most && !taken[token]) outputs.push_back(static_cast<Token>(token));
    taken[token] = true;
  };
  for (size_t i = 0; named != nullptr && i < named->size(); ++i) {
    const int64_t token = (*named)[i];
    if (token < 0 || static_cast<size_t>(token) >= vocabulary)
      return fail("{}: {} has {}, which is no token's number", file.path(), kWordsKey, token);
    take(static_cast<size_t>(token));
  }
  for (size_t token = 0; token < vocabulary; ++token) take(token);
  // Of equal logits the sampler takes the first one, so the tokens must be in order.
  std::sort(outputs.begin(), outputs.end());
  return outputs;
}

}  // namespace

base::Result<std::shared_ptr<const DraftWeights>> DraftWeights::load(const Engine& engine,
                                                                     const SpecOptions& options) {
  const model::Workspace workspace = engine.make_workspace();
  const model::LoadOptions how = {.kernels = &engine.kernels(), .pool = &workspace.pool};
  if (options.by_own_layer()) {
    auto own = std::make_shared<DraftWeights>();
    KVICK_TRY(own->model, engine.model().read_drafter(how));
    return std::shared_ptr<const DraftWeights>(std::move(own));
  }
  const std::string& path = options.model;
  KVICK_TRY(io::ModelFile file, io::ModelFile::open(path));
  KVICK_TRY(const text::Vocabulary vocabulary, model::read_vocabulary(file));
  const std::vector<std::string>& pieces = engine.tokenizer().vocabulary().pieces;
  if (vocabulary.pieces.size() != pieces.size())
    return fail(
        "{}: {} tokens in the vocabulary, but the model has {}; a draft model must have "
        "the same",
        path, vocabulary.pieces.size(), pieces.size());
  const auto differ = std::mismatch(pieces.begin(), pieces.end(), vocabulary.pieces.begin());
  if (differ.first != pieces.end())
    return fail("{}: token {} is not the model's; a draft model must have the same vocabulary",
                path, differ.first - pieces.begin());
  auto weights = std::make_shared<DraftWeights>();
  weights->path = path;
  weights->words = options.words;
  KVICK_TRY(weights->outputs, outputs_of(file, options.words, pieces.size()));
  model::LoadOptions words = how;
  words.outputs = weights->outputs;
  KVICK_TRY(weights->model, model::Model::load(std::move(file), words));
  if (weights->model->trained_slots() != nullptr)
    return fail("{}: a model with a memory of slots cannot draft", path);
  return std::shared_ptr<const DraftWeights>(std::move(weights));
}

base::Result<std::unique_ptr<DraftModel>> DraftModel::make(
    const Engine& engine, std::shared_ptr<const DraftWeights> weights,
    std::shared_ptr<kv::Budget> budget) {
  auto draft = std::make_unique<DraftModel>();
  draft->weights = std::move(weights);
  draft->budget_ = std::move(budget);
  draft->executor =
      std::make_shared<model::Executor>(*draft->weights->model, engine.make_workspace());
  draft->executor->workspace().library = nullptr;  // it needs buckets, but the store has blocks
  KVICK_TRY(draft->store, draft->make_store(engine));
  return draft;
}

base::Result<std::unique_ptr<kv::Store>> DraftModel::make_store(const Engine& engine) const {
  kv::Setup setup;
  model::set_layers(weights->model->config(), setup);
  setup.limits.budget = budget_;
  setup.compute.store_row = engine.kernels().store_row;
  setup.compute.store_group = engine.kernels().store_group;
  setup.compute.kernels = &engine.kernels();
  return kv::make_store({.name = "paged", .options = {}}, setup);
}

void DraftModel::drop_broken() noexcept {
  for (SmallModelDrafter* const drafter : drafters) drafter->give_up();
  store.reset();
}

bool DraftModel::renew(const Engine& engine) noexcept {
  if (!broken) return true;
  drop_broken();
  try {
    auto made = make_store(engine);
    if (!made.ok()) return false;
    store = std::move(made).value();
    broken = false;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// A tree while it grows.
struct ModelDrafter::Growing {
  Ground ground;
  DraftTree shape;                // has ranks in place of tokens
  std::vector<int32_t> node_of;   // [nodes of the shape] the node of the tree, or -1
  std::vector<Sampler> samplers;  // [nodes of the tree] the state after each node
  const Sampler* root = nullptr;
  Token last = 0;
  // With Ground::by_states: after the text, then after each node, [1 + nodes][dim].
  std::vector<float> states;
};

ModelDrafter::ModelDrafter(std::shared_ptr<model::Executor> executor,
                           std::span<const Token> outputs, const Engine& engine,
                           const Acceptance& acceptance, Kind first)
    : executor_(std::move(executor)),
      outputs_(outputs),
      acceptance_(acceptance),
      first_(first),
      tokens_(engine.tokenizer().vocabulary().pieces.size()) {}

std::vector<double> ModelDrafter::rates() const {
  std::vector<double> rates;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const double rate = acceptance_.rate(static_cast<Kind>(first_ + rank));
    rates.push_back(rank == 0 ? rate : std::min(rate, rates.back()));
  }
  return rates;
}

void ModelDrafter::draft(const DraftAsk& ask, DraftTree& tree) {
  Growing growing = {.ground = ground(ask),
                     .shape = best_shape(rates(), ask.most, ask.depth, first_),
                     .node_of = {},
                     .samplers = {},
                     .root = ask.sampler,
                     .last = ask.text.back(),
                     .states = {}};
  if (growing.ground.store == nullptr || growing.shape.nodes.empty()) return;
  growing.node_of.assign(growing.shape.nodes.size(), -1);
  if (growing.ground.by_states)
    growing.states.assign(executor_->states().begin(), executor_->states().end());
  const size_t outputs = executor_->model().outputs();
  for (uint32_t level = 0; forward_level(growing, tree, level); ++level) {
    const size_t before = tree.nodes.size();
    if (level == 0) {
      add_children(growing, tree, -1, executor_->logits().first(outputs));
    } else {
      size_t row = 0;
      for (size_t i = 0; i < before; ++i)
        if (tree.nodes[i].depth == level)
          add_children(growing, tree, static_cast<int32_t>(i),
                       executor_->logits().subspan(row++ * outputs, outputs));
    }
    if (tree.nodes.size() == before) return;
  }
}

// Computes the logits after the nodes of this depth, in their order. Returns false if none is
// needed, or if there is no room.
bool ModelDrafter::forward_level(Growing& growing, const DraftTree& tree, uint32_t level) {
  const bool deeper = std::any_of(growing.shape.nodes.begin(), growing.shape.nodes.end(),
                                  [&](const DraftTree::Node& n) { return n.depth == level + 1; });
  if (!deeper) return false;
  if (level == 0 && !growing.ground.last) return true;
  FreshTokens fresh(growing.last, tree);
  std::vector<uint32_t> wanted;
  for (uint32_t i = 0; i < tree.nodes.size(); ++i)
    if (tree.nodes[i].depth == level) wanted.push_back(i + 1);
  if (level == 0) wanted = {0};
  if (!growing.ground.last) {  // the row of the text's last token is committed
    fresh.tokens.erase(fresh.tokens.begin());
    fresh.parents.erase(fresh.parents.begin());
    for (int32_t& parent : fresh.parents) --parent;
    for (uint32_t& row : wanted) --row;
  }
  const std::vector<float> before = states_before(growing, tree);
  const model::Slot slot = {.seq = growing.ground.seq,
                            .past = growing.ground.past,
                            .tokens = fresh.tokens,
                            .parents = fresh.parents,
                            .adapter = growing.ground.adapter,
                            .adapter_scale = growing.ground.adapter_scale,
                            .states = before.empty() ? nullptr : before.data()};
  const model::Batch batch = {.slots = {&slot, 1}, .skipped = growing.ground.skipped};
  const bool by_states = growing.ground.by_states;
  // The step is dropped at once: nothing is committed.
  if (!executor_
           ->run(*growing.ground.store, batch, wanted, by_states ? wanted : std::vector<uint32_t>())
           .ok())
    return false;
  if (by_states)
    growing.states.insert(growing.states.end(), executor_->states().begin(),
                          executor_->states().end());
  return true;
}

// Returns for each node the state before it, from which its row is made: [nodes][dim]. Nodes are in
// order of depth, so the states before the last level's nodes are known.
std::vector<float> ModelDrafter::states_before(const Growing& growing, const DraftTree& tree) {
  std::vector<float> before;
  if (!growing.ground.by_states) return before;
  const auto dim = static_cast<ptrdiff_t>(executor_->model().config().dim);
  for (const DraftTree::Node& node : tree.nodes) {
    const auto from = growing.states.begin() + (node.parent + 1) * dim;
    before.insert(before.end(), from, from + dim);
  }
  return before;
}

// Returns the n likeliest tokens, in that order.
std::vector<Token> ModelDrafter::likeliest(std::span<const float> logits, size_t n) const {
  std::vector<uint32_t> best;
  const size_t outputs = outputs_.empty() ? tokens_ : outputs_.size();
  for (uint32_t i = 0; i < outputs; ++i) {
    if (best.size() == n && logits[i] <= logits[best.back()]) continue;
    if (best.size() == n) best.pop_back();
    const auto before = std::find_if(best.begin(), best.end(),
                                     [&](uint32_t other) { return logits[i] > logits[other]; });
    best.insert(before, i);
  }
  std::vector<Token> tokens;
  for (const uint32_t i : best)
    tokens.push_back(outputs_.empty() ? static_cast<Token>(i) : outputs_[i]);
  return tokens;
}

// Returns logits of all tokens, for a sampler. Tokens that the model has no logits of are never
// drawn.
std::span<float> ModelDrafter::by_token(std::span<float> logits) {
  if (outputs_.empty()) return logits.first(tokens_);
  by_token_.assign(tokens_, std::numeric_limits<float>::lowest());
  for (size_t i = 0; i < outputs_.size(); ++i)
    by_token_[static_cast<size_t>(outputs_[i])] = logits[i];
  return by_token_;
}

// The first child is the token that the answer's sampler would draw from these logits, with the
// same random numbers: the better the models agree, the more often it is accepted. The other
// children are the likeliest tokens.
void ModelDrafter::add_children(Growing& growing, DraftTree& tree, int32_t parent,
                                std::span<float> logits) {
  std::vector<size_t> wanted;  // nodes of the shape, by rank
  for (size_t i = 0; i < growing.shape.nodes.size(); ++i) {
    const int32_t of = growing.shape.nodes[i].parent;
    if ((of < 0 ? -1 : growing.node_of[static_cast<size_t>(of)]) == parent &&
        (of < 0) == (parent < 0))
      wanted.push_back(i);
  }
  if (wanted.empty()) return;
  std::vector<Token> best = likeliest(logits, wanted.size() + 1);
  Sampler sampler = parent < 0 ? *growing.root : growing.samplers[static_cast<size_t>(parent)];
  const Token drawn = sampler.choose(by_token(logits));
  best.erase(std::remove(best.begin(), best.end(), drawn), best.end());
  best.insert(best.begin(), drawn);
  for (size_t rank = 0; rank < wanted.size() && rank < best.size(); ++rank) {
    const int32_t node = tree.add(parent, best[rank], growing.shape.nodes[wanted[rank]].kind);
    growing.node_of[wanted[rank]] = node;
    Sampler behind = sampler;
    behind.accept(best[rank]);
    growing.samplers.push_back(std::move(behind));
  }
}

SmallModelDrafter::SmallModelDrafter(DraftModel& small, const Engine& engine,
                                     const Acceptance& acceptance, bool shares, Kind first)
    : ModelDrafter(small.executor, small.weights->outputs, engine, acceptance, first),
      small_(small),
      shares_(shares) {
  small_.drafters.insert(this);
  try {
    seq_ = small.store->open({}).seq;
  } catch (...) {
    small_.drafters.erase(this);
    throw;
  }
}

SmallModelDrafter::~SmallModelDrafter() {
  give_up();
  small_.drafters.erase(this);
}

void SmallModelDrafter::give_up() noexcept {
  const std::optional<kv::SeqId> seq = std::exchange(seq_, std::nullopt);
  if (!seq || small_.broken) return;
  try {
    small_.store->close(*seq);
  } catch (...) {
    small_.broken = true;
  }
}

// Takes rows of the text that other sequences have computed, if they are more than its own: several
// answers to one prompt compute it once.
void SmallModelDrafter::take_cached(std::span<const Token> text) {
  const kv::Opened opened = small_.store->open(text);
  if (opened.cached <= committed_.size() && !committed_.empty())
    return small_.store->close(opened.seq);
  small_.store->close(*std::exchange(seq_, opened.seq));
  committed_.assign(text.begin(), text.begin() + opened.cached);
}

// Computes and commits tokens of the text; the executor then has the logits after the last one.
bool SmallModelDrafter::read(std::span<const Token> tokens) {
  const model::Slot slot = {.seq = *seq_,
                            .past = static_cast<uint32_t>(committed_.size()),
                            .tokens = tokens,
                            .parents = {},
                            .reusable = shares_};
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  if (!executor_->advance(*small_.store, {.slots = {&slot, 1}}, {&last, 1}).ok()) return false;
  committed_.insert(committed_.end(), tokens.begin(), tokens.end());
  return true;
}

// The text only grows, so the committed tokens stay its beginning.
ModelDrafter::Ground SmallModelDrafter::ground(const DraftAsk& ask) {
  const bool continues = std::exchange(behind_, false);
  if (!seq_ || small_.broken || ask.text.size() + ask.most > small_.store->most_tokens()) return {};
  // Asked again after a failed step: the executor has the logits after that step's draft tokens.
  if (ask.text.size() == committed_.size()) return {};
  if (shares_ && (continues || committed_.empty()))
    take_cached(ask.text.first(ask.text.size() - 1));
  const auto unread = ask.text.subspan(committed_.size());
  const bool few = unread.size() <= kFewUnread;
  const auto piece =
      few ? unread : unread.first(std::min({unread.size(), kMostRead, small_.may_read}));
  if (!piece.empty() && !read(piece)) return {};
  small_.may_read -= std::min(small_.may_read, piece.size());
  behind_ = piece.size() < unread.size();
  if (behind_) return {};
  return {.store = small_.store.get(),
          .seq = *seq_,
          .past = static_cast<uint32_t>(committed_.size()),
          .last = false,
          .skipped = nullptr,
          .by_states = false};
}

ModelDrafter::Ground SkipDrafter::ground(const DraftAsk& ask) {
  return {.store = ask.store,
          .seq = ask.seq,
          .past = ask.store->length(ask.seq),
          .last = true,
          .skipped = &skipped_,
          .by_states = false,
          .adapter = ask.adapter,
          .adapter_scale = ask.adapter_scale};
}

}  // namespace kvick::engine
