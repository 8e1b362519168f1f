// Models with a gated delta net: compared with a twin in doubles, and run over stores.

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "make_model/families.h"

#include "kv/registry/registry.h"
#include "model/core/executor.h"
#include "model/core/test_runner.h"
#include "model/states/test_delta_twin.h"

namespace kvick::model {
namespace {

tools::Spec delta_spec(const char* family) {
  tools::Spec spec = *tools::made_family(family);
  spec.features.state_size = 24;  // differs from the size of values
  return *tools::checked(spec);
}
// The layout of old files and of Hugging Face folders.
tools::Spec grouped_spec() {
  tools::Spec spec = delta_spec("qwen3next");
  spec.features.delta_grouped = true;
  return spec;
}

struct DeltaModel {
  explicit DeltaModel(const tools::Spec& spec,
                      const kernels::Table& table = kernels::table(base::best_isa()))
      : kernels(table), vocab(spec.vocab), path(test_path(spec.features.family + "_delta.gguf")) {
    EXPECT_TRUE(tools::make_gguf(path, spec, pool).ok());
    model = load_model(path, pool, kernels);
  }
  std::unique_ptr<kv::Store> store(const char* strategy) const {
    kv::Setup setup = {.shape = {.max_tokens = 100,
                                 .k_type = kernels::DType::kF32,
                                 .v_type = kernels::DType::kF32},
                       .layers = model->kv_layers()};
    setup.sharing.prefixes = true;
    auto made = kv::make_store(*kv::parse_spec(strategy), setup);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return std::move(made).value();
  }

  base::ThreadPool pool{2};
  const kernels::Table& kernels;
  uint32_t vocab;
  std::string path;
  std::unique_ptr<Model> model;
};

// Sequences of a store that are fed in steps.
struct DeltaFeed {
  DeltaFeed(DeltaModel& of, const char* strategy)
      : store(of.store(strategy)), executor(*of.model, {of.pool, of.kernels}) {}

  // Returns the logits of all tokens. kept null: all rows are kept.
  std::vector<float> step(std::span<const Slot> slots, const kv::Kept* kept = nullptr,
                          bool commits = true) {
    const Batch batch = {.slots = slots};
    std::vector<uint32_t> wanted(batch.tokens());
    std::iota(wanted.begin(), wanted.end(), 0U);
    auto step = executor.run(*store, batch, wanted).value();
    std::vector<float> logits(executor.logits().begin(), executor.logits().end());
    if (commits) step.commit(kept != nullptr ? *kept : step.all());
    return logits;
  }
  Slot slot(kv::SeqId seq, std::span<const Token> tokens) const {
    return {.seq = seq, .past = store->length(seq), .tokens = tokens, .parents = {}};
  }
  std::vector<float> feed(kv::SeqId seq, std::span<const Token> tokens, size_t piece) {
    std::vector<float> all;
    for (; !tokens.empty(); tokens = tokens.subspan(std::min(piece, tokens.size()))) {
      const Slot next = slot(seq, tokens.first(std::min(piece, tokens.size())));
      const std::vector<float> logits = step({&next, 1});
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  std::unique_ptr<kv::Store> store;
  Executor executor;
};

std::vector<float> feed_once(DeltaModel& model, std::span<const Token> tokens, size_t piece,
                             const char* strategy = "virtual") {
  DeltaFeed feed(model, strategy);
  return feed.feed(feed.store->open({}).seq, tokens, piece);
}

struct DeltaCase {
  const char* name;
  tools::Spec (*spec)();
};
class GatedDeltaNet : public testing::TestWithParam<DeltaCase> {};
INSTANTIATE_TEST_SUITE_P(
    Model, GatedDeltaNet,
    testing::Values(DeltaCase{"Qwen3Next", [] { return delta_spec("qwen3next"); }},
                    DeltaCase{"Grouped", grouped_spec},
                    DeltaCase{"Qwen35", [] { return delta_spec("qwen35"); }},
                    DeltaCase{"Qwen35Moe", [] { return delta_spec("qwen35moe"); }}),
    [](const auto& instance) { return instance.param.name; });

TEST_P(GatedDeltaNet, ComputesWhatItsTwinDoes) {
  const tools::Spec spec = GetParam().spec();
  DeltaTwin twin(spec);
  const std::vector<Token> tokens = tokens_of(19, 7, spec.vocab);
  std::vector<double> expected;
  for (const Token token : tokens) {
    const DeltaTwin::Vector logits = twin.logits(token);
    expected.insert(expected.end(), logits.begin(), logits.end());
  }
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 1);  // the logits differ
  for (const base::Isa isa : {base::best_isa(), base::Isa::kScalar}) {
    DeltaModel model(spec, kernels::table(isa));
    const std::vector<float> logits = feed_once(model, tokens, tokens.size());
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(logits[i], expected[i], 2e-4) << i << ' ' << base::isa_name(isa);
  }
}

TEST_P(GatedDeltaNet, GivesTheSameBitsHoweverAPromptIsCut) {
  DeltaModel model(GetParam().spec());
  const std::vector<Token> tokens = tokens_of(40, 3, model.vocab);
  const std::vector<float> whole = feed_once(model, tokens, 40);
  for (const size_t piece : {1, 7, 39})
    EXPECT_TRUE(same_bits(whole, feed_once(model, tokens, piece))) << piece;
  EXPECT_TRUE(same_bits(whole, feed_once(model, tokens, 7, "paged:block=4")));
}

TEST_P(GatedDeltaNet, GivesSequencesOfOneBatchTheBitsThatEachHasAlone) {
  DeltaModel model(GetParam().spec());
  DeltaFeed feed(model, "paged:block=4");
  const std::vector<uint32_t> lengths = {9, 1, 14};
  std::vector<Slot> slots;
  std::vector<std::vector<Token>> tokens;
  for (uint32_t i = 0; i < lengths.size(); ++i)
    tokens.push_back(tokens_of(lengths[i] + 1, i + 1, model.vocab));
  for (const std::vector<Token>& each : tokens) {
    slots.push_back(feed.slot(feed.store->open({}).seq, std::span(each).first(each.size() - 1)));
  }
  const std::vector<float> first = feed.step(slots);
  for (uint32_t i = 0; i < lengths.size(); ++i)
    slots[i] = feed.slot(slots[i].seq, std::span(tokens[i]).last(1));
  const std::vector<float> second = feed.step(slots);
  for (size_t i = 0, at = 0; i < lengths.size(); at += lengths[i++]) {
    const std::vector<float> alone = feed_once(model, tokens[i], 100);
    const size_t floats = size_t{lengths[i]} * model.vocab;
    EXPECT_TRUE(same_bits(std::span(first).subspan(at * model.vocab, floats),
                          std::span(alone).first(floats)));
    EXPECT_TRUE(same_bits(std::span(second).subspan(i * model.vocab, model.vocab),
                          std::span(alone).last(model.vocab)));
  }
}

// A dropped step, a fork with other tokens, and other branches of a draft tree leave no trace.
TEST_P(GatedDeltaNet, KeepsTheStatesOfThePathThatIsKept) {
  DeltaModel model(GetParam().spec());
  const std::vector<Token> tokens = tokens_of(12, 5, model.vocab), wrong = {1, 2, 3};
  const std::vector<float> whole = feed_once(model, tokens, 12);
  for (const char* strategy : {"virtual", "paged:block=4"}) {
    DeltaFeed feed(model, strategy);
    const kv::SeqId seq = feed.store->open({}).seq;
    feed.feed(seq, std::span(tokens).first(6), 6);
    Slot slot = feed.slot(seq, wrong);
    feed.step({&slot, 1}, nullptr, false);
    const kv::SeqId fork = feed.store->fork(seq).value();
    feed.feed(fork, wrong, 3);
    feed.store->close(fork);
    const std::vector<Token> drafts = {9, tokens[6], 8, tokens[7]};
    const std::vector<int32_t> parents = {-1, -1, 1, 1};
    slot = feed.slot(seq, drafts);
    slot.parents = parents;
    const kv::Kept path = {.rows = {{1, 3}}};
    const std::vector<float> drafted = feed.step({&slot, 1}, &path);
    EXPECT_TRUE(same_bits(std::span(drafted).subspan(3 * model.vocab, model.vocab),
                          std::span(whole).subspan(7 * model.vocab, model.vocab)));
    const std::vector<float> rest = feed.feed(seq, std::span(tokens).subspan(8), 4);
    EXPECT_TRUE(same_bits(rest, std::span(whole).last(rest.size()))) << strategy;
  }
}

TEST_P(GatedDeltaNet, GoesOnFromACheckpoint) {
  DeltaModel model(GetParam().spec());
  const std::vector<Token> tokens = tokens_of(24, 9, model.vocab);
  const std::vector<float> whole = feed_once(model, tokens, 24);
  DeltaFeed feed(model, "paged:block=4");
  const kv::SeqId seq = feed.store->open({}).seq;
  feed.feed(seq, std::span(tokens).first(16), 16);
  feed.store->close(seq);
  const kv::Opened opened = feed.store->open(tokens);
  ASSERT_EQ(opened.cached, 16u);
  const std::vector<float> rest =
      feed.feed(opened.seq, std::span(tokens).subspan(opened.cached), 3);
  EXPECT_TRUE(same_bits(rest, std::span(whole).last(rest.size())));
}

TEST(GatedDelta, LeavesADraftersLayersOut) {
  tools::Spec spec = delta_spec("qwen35");
  DeltaModel model(spec);
  const std::vector<Token> tokens = tokens_of(5, 4, model.vocab);
  const std::vector<float> logits = feed_once(model, tokens, 5);
  spec.features.draft_layers = 2;
  DeltaModel drafting(spec);
  EXPECT_EQ(drafting.model->config().layer_count(), spec.layers);
  EXPECT_TRUE(same_bits(logits, feed_once(drafting, tokens, 5)));
}

TEST(GatedDelta, SaysWhichSizesItTakes) {
  tools::Spec spec = delta_spec("qwen35");
  spec.features.state_head_dim = 8;
  base::ThreadPool pool(1);
  const std::string path = test_path("delta_odd.gguf");
  ASSERT_TRUE(tools::make_gguf(path, spec, pool).ok());
  const auto config = read_config(*io::ModelFile::open(path));
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().message,
            path +
                ": qwen35.ssm says that keys have 24 elements and values 8; kvick takes "
                "multiples of 8 and 16");
}

}  // namespace
}  // namespace kvick::model
