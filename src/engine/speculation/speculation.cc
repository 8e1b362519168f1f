#include "engine/speculation/speculation.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "engine/speculation/match_drafter.h"
#include "engine/speculation/model_drafter.h"
#include "engine/speculation/own_drafter.h"

namespace kvick::engine {

using base::fail;

namespace {

// Measurements of other sequences count as this many draft tokens of a sequence's own.
constexpr double kWeightOfOthers = 6;
constexpr size_t kMuchText = 32;  // new tokens, since the drafter drafted last
// A step's draft tokens are charged at most this many times its predicted time.
constexpr double kMostRise = 2;
// Steps before a drafter that does not pay is tried again: the first value doubles with each trial.
constexpr uint32_t kFirstPatience = 32, kLastPatience = 1024;

}  // namespace

void Drafts::keep(double least, uint32_t most) {
  std::vector<size_t> order(chances.size());
  std::iota(order.begin(), order.end(), 0);
  // Stable, so that of equal chances the parent comes first.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return chances[a] > chances[b]; });
  std::vector<bool> kept(chances.size());
  for (size_t i = 0; i < order.size() && i < most; ++i) kept[order[i]] = chances[order[i]] >= least;
  keep(kept);
}

void Drafts::obey(const text::Constraint& form, size_t tokens) {
  struct State {
    std::unique_ptr<text::Constraint> form;
    std::vector<float> mask;  // [tokens]; empty: not computed yet
  };
  std::vector<State> behind(tree.nodes.size() + 1);  // after the text, then after each kept node
  behind[0].form = form.clone();
  std::vector<bool> kept(tree.nodes.size());
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const DraftTree::Node& node = tree.nodes[i];
    State& parent = behind[static_cast<size_t>(node.parent + 1)];
    if (parent.form == nullptr || static_cast<size_t>(node.token) >= tokens) continue;
    if (parent.mask.empty()) {
      parent.mask.assign(tokens, 0);
      parent.form->mask(parent.mask);
    }
    if (parent.mask[static_cast<size_t>(node.token)] < 0) continue;
    kept[i] = true;
    behind[i + 1].form = parent.form->clone();
    behind[i + 1].form->accept(node.token);
  }
  keep(kept);
}

void Drafts::keep(const std::vector<bool>& kept) {
  tree.keep(kept);
  size_t next = 0;
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i]) chances[next++] = chances[i];
  chances.resize(next);
}

Speculator::Speculator(Speculation& all, const SpecOptions& options)
    : all_(all),
      options_(options),
      acceptance_(all.acceptance, kWeightOfOthers),
      patience_(kFirstPatience) {}

// Draft tokens that were not verified are measured too: the text now has the tokens at their place.
void Speculator::learn(std::span<const Token> text) {
  int32_t parent = -1;
  for (size_t i = last_length_; i < text.size() && !last_.nodes.empty(); ++i) {
    for (const DraftTree::Node& node : last_.nodes) {
      if (node.parent != parent) continue;
      acceptance_.observe(node.kind, node.token == text[i]);
      all_.acceptance.observe(node.kind, node.token == text[i]);
    }
    parent = last_.child(parent, text[i]);
    if (parent < 0) break;
  }
}

bool Speculator::tries(bool pays) {
  if (pays) {
    left_out_ = 0;
    patience_ = kFirstPatience;
    return true;
  }
  if (++left_out_ < patience_) return false;
  left_out_ = 0;
  patience_ = std::min(2 * patience_, kLastPatience);
  return true;
}

double Speculator::draft(Drafter& drafter, DraftAsk ask, const PlainStep& plain, DraftTree& tree) {
  const std::vector<double> rates = drafter.rates();
  DraftTree grown;
  if (rates.empty()) {
    drafter.draft(ask, grown);
    tree.add_all(grown);
    return 0;
  }
  if (options_.gain) {
    const TreeSize size = worth(rates, {ask.most, ask.depth}, {plain, all_.cost, all_.level_cost},
                                chances_of(tree, acceptance_));
    const bool pays = size.nodes > 0;
    // A trial that has begun to read the text goes on until it has drafted.
    if (!drafter.is_behind() && !tries(pays)) return 0;
    if (pays) std::tie(ask.most, ask.depth) = std::pair(size.nodes, size.depth);
  }
  const bool continues = drafter.is_behind();
  const double start = all_.clock();
  drafter.draft(ask, grown);
  uint32_t levels = 0;
  for (const DraftTree::Node& node : grown.nodes) levels = std::max(levels, node.depth);
  const double seconds = all_.clock() - start;
  const bool reads =
      continues || drafter.is_behind() || ask.text.size() >= computed_length_ + kMuchText;
  if (!reads) all_.level_cost.observe(levels, seconds);
  computed_length_ = ask.text.size();
  tree.add_all(grown);
  return reads ? seconds : 0;
}

Drafts Speculator::propose(DraftAsk ask, const PlainStep& plain) {
  const double start = all_.clock();
  learn(ask.text);
  const uint32_t room = ask.most;
  ask.most = std::min(options_.most, room);
  ask.depth = std::min({ask.depth, options_.depth, room});
  Drafts drafts;
  double reading = 0;
  if (ask.depth > 0)
    for (const auto& drafter : drafters_) reading += draft(*drafter, ask, plain, drafts.tree);
  last_ = drafts.tree;
  last_length_ = ask.text.size();
  drafts.chances = chances_of(drafts.tree, acceptance_);
  if (ask.form != nullptr && drafts.size() > 0) drafts.obey(*ask.form, all_.vocabulary_tokens());
  drafts.keep(0, ask.most);
  if (options_.gain) all_.charge(all_.clock() - start - reading);
  return drafts;
}

bool Speculator::reads_states() const {
  return std::ranges::any_of(drafters_, [](const auto& one) { return one->reads_states(); });
}

std::exception_ptr Speculator::see(const SeenRows& rows) noexcept {
  try {
    for (const auto& drafter : drafters_) drafter->see(rows);
    return nullptr;
  } catch (...) {  // whatever it is, the answer continues without draft tokens
    all_.distrust();
    drafters_.clear();  // each would fail again, and be reported again, at every step
    return std::current_exception();
  }
}

Speculation::Speculation(const Engine& engine, base::Clock now) : clock(now), engine_(engine) {}
Speculation::~Speculation() = default;

base::Status<> Speculation::prepare(const SpecOptions& options,
                                    std::shared_ptr<const DraftWeights> weights,
                                    std::shared_ptr<kv::Budget> budget) {
  if (options.by_model() && !has_draft_model(options)) {
    if (weights == nullptr || !weights->are(options)) {
      KVICK_TRY(weights, DraftWeights::load(engine_, options));
    }
    KVICK_TRY(draft_model_, DraftModel::make(engine_, std::move(weights), std::move(budget)));
  }
  return check(options);
}

bool Speculation::has_draft_model(const SpecOptions& options) const {
  return draft_model_ != nullptr && draft_model_->weights->are(options);
}

void Speculation::begin_step(size_t tokens) {
  if (draft_model_ != nullptr) draft_model_->may_read = tokens;
}

kv::Usage Speculation::draft_usage() const {
  return draft_model_ != nullptr && draft_model_->store != nullptr ? draft_model_->store->usage()
                                                                   : kv::Usage{};
}

double Speculation::draft_idle_seconds() const {
  if (draft_model_ == nullptr || draft_model_->broken || draft_model_->store == nullptr) return -1;
  const kv::Holdings* const holdings = draft_model_->store->facets().holdings;
  return holdings != nullptr ? holdings->idle_seconds() : -1;
}

// Frees the broken store at once: nobody can use its rows, and renew() waits for the next sequence.
void Speculation::distrust() noexcept {
  if (draft_model_ == nullptr) return;
  draft_model_->broken = true;
  draft_model_->drop_broken();
}

uint64_t Speculation::shrink(uint64_t bytes) {
  if (draft_model_ == nullptr) return 0;
  if (draft_model_->broken) return give_up();
  return kv::shrink(*draft_model_->store, bytes);
}

uint64_t Speculation::give_up() {
  if (draft_model_ == nullptr) return 0;
  const uint64_t before = draft_usage().allocated_bytes;
  for (SmallModelDrafter* const drafter : draft_model_->drafters) drafter->give_up();
  if (draft_model_->broken)  // broken before, or by giving up
    draft_model_->drop_broken();
  else
    kv::shrink(*draft_model_->store, before);
  return before - draft_usage().allocated_bytes;
}

base::Status<> Speculation::check(const SpecOptions& options) const {
  if (options.by_own_layer() && !has_draft_model(options))
    return fail("the model's own layer that drafts is not loaded: start kvick with --spec mtp");
  if (options.by_model() && !has_draft_model(options))
    return fail("the draft model {}{} is not loaded; only the one that kvick was started with is",
                options.model,
                options.words != 0 ? fmt::format(" of {} words", options.words) : "");
  const uint32_t layers = engine_.model().all_layers();
  if (options.skip.size() > layers)
    return fail("layer {} cannot be left out: the model's last one is {}", options.skip.size() - 1,
                layers - 1);
  if (std::count(options.skip.begin(), options.skip.end(), true) == layers)
    return fail("at least one of the {} layers has to propose; leave fewer out", layers);
  if (!options.skip.empty() && engine_.model().trained_slots() != nullptr)
    return fail("a model with a memory of slots cannot leave layers out; use lookup or suffix");
  return base::Done{};
}

void Speculation::observe(const StepShape& rows, const PlainStep& plain, uint32_t tokens,
                          double seconds) {
  const double without = cost.seconds(plain.shape);
  const bool drafted = rows.rows > plain.shape.rows && without > 0;
  // Limits outliers: an interruption of the step is no cost of draft tokens.
  const double counted = std::min(seconds, kMostRise * cost.seconds(rows));
  const double drafting = std::min(std::exchange(drafting_, 0.0), kMostRise * without);
  double instead = drafted ? plain.tokens * counted / without : tokens;
  if (without > 0) instead += plain.tokens * drafting / without;
  account.add(tokens, instead);
  cost.observe(rows, seconds);
}

std::unique_ptr<Speculator> Speculation::begin(const SpecOptions& options, bool shares,
                                               std::shared_ptr<PromptMatches> prompt) {
  if (!options.on()) return nullptr;
  auto speculator = std::make_unique<Speculator>(*this, options);
  const Acceptance& rates = speculator->acceptance();
  const bool by_all = options.way == "auto";
  if (by_all || options.way == "lookup")
    speculator->add(std::make_unique<LookupDrafter>(std::move(prompt)));
  if (shares && (by_all || options.way == "suffix"))
    speculator->add(std::make_unique<SuffixDrafter>(texts_));
  if (options.by_model() && draft_model_->renew(engine_)) {
    if (options.by_own_layer())
      speculator->add(std::make_unique<OwnDrafter>(*draft_model_, engine_, rates, shares));
    else
      speculator->add(std::make_unique<SmallModelDrafter>(*draft_model_, engine_, rates, shares));
  }
  if (options.way == "skip") {
    std::vector<bool> skipped = options.skip;
    skipped.resize(engine_.model().all_layers());
    speculator->add(std::make_unique<SkipDrafter>(engine_, std::move(skipped), rates));
  }
  return speculator;
}

void Speculation::add_text(std::span<const Token> text) {
  try {
    texts_->begin();
    for (const Token token : text) texts_->add(token);
  } catch (const std::bad_alloc&) {  // others draft from the part that was added
  }
}

}  // namespace kvick::engine
