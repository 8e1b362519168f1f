// Models whose layers keep a state, in a pipeline: it computes the bits of one process, and has its
// checkpoints.

#include "make_model/families.h"

#include "kv/strategy/facet_calls.h"
#include "model/parallel/ranked_store.h"
#include "model/parallel/test_team.h"
#include "model/states/state_type.h"

namespace kvick::model {
namespace {

constexpr auto kF16 = kernels::DType::kF16;

// Performs the operations of a conversation on a sequence, and collects the logits of all steps.
template <typename Side>
class Conversation {
 public:
  Conversation(Side& side, std::vector<Token> text) : side_(side), text_(std::move(text)) {}

  std::vector<float> all() {
    kv::Store& store = *side_.store;
    const kv::SeqId seq = store.open({}).seq;
    add(seq, 20);
    add(seq, 4, /*commit=*/false);
    // Draft tokens, of which one path is kept.
    const std::vector<int32_t> tree = {-1, 0, 0, 2};
    const kv::Kept path = {.rows = {{0, 2, 3}}};
    add(seq, 4, true, tree, &path);
    const auto fork = store.fork(seq);
    EXPECT_TRUE(fork.ok());
    add(seq, 3);
    add(*fork, 5);
    store.close(*fork);
    moved(seq);
    store.close(seq);
    return logits_;
  }

  // Returns how many tokens of a prompt are cached after another prompt with the same beginning:
  // those up to a checkpoint.
  uint32_t resumed() {
    kv::Store& store = *side_.store;
    const kv::SeqId seq = store.open({}, {.salt = 7}).seq;
    add(seq, 12);
    store.facets().checkpoints->keep(seq, 12);
    add(seq, 8);
    store.close(seq);
    std::vector<Token> prompt(text_.begin(), text_.begin() + 12);
    prompt.push_back(99);
    const kv::Opened opened = store.open(prompt, {.salt = 7});
    EXPECT_EQ(opened.cached, store.length(opened.seq));
    store.close(opened.seq);
    return opened.cached;
  }

 private:
  // Copies rows and states to another sequence, as a tier does.
  void moved(kv::SeqId seq) {
    kv::Store& store = *side_.store;
    const kv::StoreFacets facets = store.facets();
    ASSERT_NE(facets.rows, nullptr);
    ASSERT_NE(facets.checkpoints, nullptr);
    EXPECT_TRUE(facets.checkpoints->only_at_end());
    const uint32_t length = store.length(seq);
    std::vector<std::byte> rows(length * kv::moved_token_bytes(store));
    std::vector<std::byte> state(facets.checkpoints->state_bytes());
    EXPECT_FALSE(state.empty());
    facets.rows->read_rows(seq, 0, length, rows);
    facets.checkpoints->read_state(seq, state);
    const kv::SeqId other = store.open({}).seq;
    const std::vector<Token> tokens(length, 1);
    EXPECT_TRUE(kv::append_rows(store, other, tokens, rows).ok());
    facets.checkpoints->put_state(other, state);
    const size_t before = logits_.size();
    add(seq, 6);
    add(other, 6);
    const std::span<const float> both = std::span<const float>(logits_).subspan(before);
    const size_t half = both.size() / 2;
    EXPECT_TRUE(std::ranges::equal(both.first(half), both.subspan(half)));
    store.close(other);
  }

  void add(kv::SeqId seq, uint32_t count, bool commit = true, std::span<const int32_t> parents = {},
           const kv::Kept* kept = nullptr) {
    const uint32_t past = side_.store->length(seq);
    const Slot slot = {.seq = seq,
                       .past = past,
                       .tokens = std::span<const Token>(text_).subspan(past, count),
                       .parents = parents};
    std::vector<uint32_t> wanted(count);
    std::iota(wanted.begin(), wanted.end(), 0U);
    auto step = side_.executor->run(*side_.store, {.slots = {&slot, 1}}, wanted);
    ASSERT_TRUE(step.ok()) << step.error().what;
    const auto now = side_.executor->logits();
    logits_.insert(logits_.end(), now.begin(), now.end());
    if (commit) step->commit(kept != nullptr ? *kept : step->all());
  }

  Side& side_;
  std::vector<Token> text_;
  std::vector<float> logits_;
};

class RankedStates : public testing::TestWithParam<const char*> {};

TEST_P(RankedStates, AreThoseOfOneProcess) {
  base::ThreadPool pool(1);
  tools::Spec spec = *tools::made_family(GetParam());
  const std::string path = write_model(spec, pool, false);
  const std::vector<Token> text = tokens_of(60, 3, 90);
  Alone alone(path, "paged:block=4");
  const std::vector<float> expected = Conversation(alone, text).all();
  const uint32_t resumed = Conversation(alone, text).resumed();
  EXPECT_EQ(resumed, 12u);
  for (const unsigned ranks : {2U, 3U}) {
    Team team(path, ranks, "paged:block=4", kF16, {}, {}, RankSplit::kPipeline);
    EXPECT_TRUE(same_bits(Conversation(team, text).all(), expected)) << ranks;
    EXPECT_EQ(Conversation(team, text).resumed(), resumed) << ranks;
  }
}

TEST_P(RankedStates, OfBf16AreThoseOfOneProcess) {
  base::ThreadPool pool(1);
  const std::string path = write_model(*tools::made_family(GetParam()), pool, false);
  const std::vector<Token> text = tokens_of(60, 3, 90);
  const std::string strategy = "paged:block=4";
  const auto round = [](unsigned, kv::Setup& setup) {
    set_state_type(kernels::DType::kBF16, setup);
  };
  const auto state_bytes = [](auto& side) {
    return side.store->facets().checkpoints->state_bytes();
  };
  Alone alone(path, strategy);
  const uint64_t exact_bytes = state_bytes(alone);
  const std::vector<float> exact = Conversation(alone, text).all();
  kv::Setup setup = setup_of(*alone.model, kF16, alone.pool, alone.kernels, strategy);
  round(0, setup);
  alone.store = std::move(kv::make_store(*kv::parse_spec(strategy), setup)).value();
  EXPECT_EQ(2 * state_bytes(alone), exact_bytes);
  const std::vector<float> expected = Conversation(alone, text).all();
  EXPECT_FALSE(same_bits(expected, exact)) << "nothing was rounded";
  for (const unsigned ranks : {2U, 3U}) {
    Team team(path, ranks, strategy, kF16, {}, round, RankSplit::kPipeline);
    EXPECT_EQ(2 * state_bytes(team), exact_bytes) << ranks;
    EXPECT_TRUE(same_bits(Conversation(team, text).all(), expected)) << ranks;
    EXPECT_EQ(Conversation(team, text).resumed(), 12u) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Some, RankedStates,
                         testing::Values("lfm2", "lfm2moe", "granitehybrid", "nemotron_h", "mamba2",
                                         "qwen3next", "qwen35"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace kvick::model
