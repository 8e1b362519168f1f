#include "engine/model_drafter.h"

#include <algorithm>
#include <numeric>

#include "engine/draft_choice.h"
#include "engine/sampler.h"
#include "engine/verify.h"
#include "model/vocabulary.h"

namespace kvick::engine {

using base::fail;

base::Result<std::shared_ptr<const DraftWeights>> DraftWeights::load(const Engine& engine,
                                                                     const std::string& path) {
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
  const model::Workspace workspace = engine.make_workspace();
  KVICK_TRY(weights->model, model::Model::load(std::move(file), {.kernels = &engine.kernels(),
                                                                 .pool = &workspace.pool}));
  if (weights->model->kv_memory() != nullptr)
    return fail("{}: a model with a memory of slots cannot draft", path);
  return std::shared_ptr<const DraftWeights>(std::move(weights));
}

base::Result<std::unique_ptr<DraftModel>> DraftModel::make(
    const Engine& engine, std::shared_ptr<const DraftWeights> weights,
    std::shared_ptr<kv::Budget> budget) {
  auto draft = std::make_unique<DraftModel>();
  draft->weights = std::move(weights);
  kv::Setup setup;
  setup.shape = draft->weights->model->kv_shape(kernels::DType::kF16, kernels::DType::kF16);
  setup.budget = std::move(budget);
  setup.store_row = engine.kernels().store_row;
  setup.store_group = engine.kernels().store_group;
  setup.kernels = &engine.kernels();
  KVICK_TRY(draft->store, kv::make_store({.name = "paged", .options = {}}, setup));
  return draft;
}

// One tree while it grows.
struct ModelDrafter::Growing {
  Ground ground;
  DraftTree shape;                // ranks for tokens
  std::vector<int32_t> node_of;   // of a node of the shape, the node with its token, or -1
  std::vector<Sampler> samplers;  // behind each node of the tree; none if greedy
  const Sampler* root = nullptr;
  Token last = 0;
};

ModelDrafter::ModelDrafter(const model::Model& model, const Engine& engine,
                           const Acceptance& acceptance, Kind first)
    : model_(model),
      workspace_(engine.make_workspace()),
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
                     .last = ask.text.back()};
  if (growing.ground.store == nullptr || growing.shape.nodes.empty()) return;
  growing.node_of.assign(growing.shape.nodes.size(), -1);
  const size_t vocab = model_.config().vocab;
  for (uint32_t level = 0; forward_level(growing, tree, level); ++level) {
    const size_t before = tree.nodes.size();
    if (level == 0) {
      add_children(growing, tree, -1, std::span(logits_).first(vocab));
    } else {
      size_t row = 0;
      for (size_t i = 0; i < before; ++i)
        if (tree.nodes[i].depth == level)
          add_children(growing, tree, static_cast<int32_t>(i),
                       std::span(logits_).subspan(row++ * vocab, vocab));
    }
    if (tree.nodes.size() == before) return;
  }
}

// Logits behind the nodes of that depth, in their order. False: none is needed, or there is no
// room.
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
  if (!growing.ground.last) {  // its row is committed
    fresh.tokens.erase(fresh.tokens.begin());
    fresh.parents.erase(fresh.parents.begin());
    for (int32_t& parent : fresh.parents) --parent;
    for (uint32_t& row : wanted) --row;
  }
  const model::Slot slot = {.seq = growing.ground.seq,
                            .past = growing.ground.past,
                            .tokens = fresh.tokens,
                            .parents = fresh.parents};
  const model::Batch batch = {.slots = {&slot, 1}, .skipped = growing.ground.skipped};
  const std::vector<kv::Slot> slots = model::kv_slots(batch);
  auto step = growing.ground.store->begin({.slots = slots});
  if (!step.ok()) return false;
  logits_.resize(wanted.size() * model_.config().vocab);
  model_.forward(batch, **step, workspace_, wanted, logits_.data());
  return true;
}

// The first child is what the answer's sampler would draw here with the numbers that it will draw
// with: the better the models agree, the more often it draws that. The others are the likeliest.
void ModelDrafter::add_children(Growing& growing, DraftTree& tree, int32_t parent,
                                std::span<float> logits) {
  std::vector<size_t> wanted;  // of the shape, by rank
  for (size_t i = 0; i < growing.shape.nodes.size(); ++i) {
    const int32_t of = growing.shape.nodes[i].parent;
    if ((of < 0 ? -1 : growing.node_of[static_cast<size_t>(of)]) == parent &&
        (of < 0) == (parent < 0))
      wanted.push_back(i);
  }
  if (wanted.empty()) return;
  logits = logits.first(tokens_);
  std::vector<Token> best(logits.size());
  std::iota(best.begin(), best.end(), 0);
  const size_t n = std::min<size_t>(wanted.size() + 1, best.size());
  std::partial_sort(best.begin(), best.begin() + static_cast<ptrdiff_t>(n), best.end(),
                    [&](Token a, Token b) {
                      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
                    });
  best.resize(n);
  Sampler sampler = parent < 0 ? *growing.root : growing.samplers[static_cast<size_t>(parent)];
  const Token drawn = sampler.choose(logits);
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
                                     const Acceptance& acceptance)
    : ModelDrafter(*small.weights->model, engine, acceptance, kModelKinds),
      small_(small),
      seq_(small.store->open({}).seq) {
  workspace_.library = nullptr;  // its rows are in blocks
  small_.drafters.insert(this);
}

SmallModelDrafter::~SmallModelDrafter() {
  give_up();
  small_.drafters.erase(this);
}

void SmallModelDrafter::give_up() {
  if (seq_) small_.store->close(*seq_);
  seq_.reset();
}

// Commits tokens of the text; logits_ are those behind the last.
bool SmallModelDrafter::read(std::span<const Token> tokens) {
  constexpr size_t kChunk = 512;  // as Session::kPrefillChunk
  while (!tokens.empty()) {
    const auto chunk = tokens.first(std::min(kChunk, tokens.size()));
    const model::Slot slot = {.seq = *seq_,
                              .past = static_cast<uint32_t>(committed_.size()),
                              .tokens = chunk,
                              .parents = {}};
    const model::Batch batch = {.slots = {&slot, 1}};
    const std::vector<kv::Slot> slots = model::kv_slots(batch);
    auto step = small_.store->begin({.slots = slots});
    if (!step.ok()) return false;
    const auto last = static_cast<uint32_t>(chunk.size() - 1);
    logits_.resize(model_.config().vocab);
    model_.forward(batch, **step, workspace_, {&last, 1}, logits_.data());
    (*step)->commit(kv::Kept::all({.slots = slots}));
    committed_.insert(committed_.end(), chunk.begin(), chunk.end());
    tokens = tokens.subspan(chunk.size());
  }
  return true;
}

// The text only grows, so what was committed stays its beginning.
ModelDrafter::Ground SmallModelDrafter::ground(const DraftAsk& ask) {
  if (!seq_ || ask.text.size() + ask.most > small_.store->most_tokens()) return {};
  if (!read(ask.text.subspan(committed_.size()))) return {};
  return {.store = small_.store.get(),
          .seq = *seq_,
          .past = static_cast<uint32_t>(committed_.size()),
          .last = false,
          .skipped = nullptr};
}

ModelDrafter::Ground SkipDrafter::ground(const DraftAsk& ask) {
  return {.store = ask.store,
          .seq = ask.seq,
          .past = ask.store->length(ask.seq),
          .last = true,
          .skipped = &skipped_};
}

}  // namespace kvick::engine
