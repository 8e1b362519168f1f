// Draft tokens change nothing but the time: on every store, answers are the same with and without
// them.

#include "engine/speculation/speculation.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"
#include "engine/session/session.h"
#include "engine/speculation/test_draft_model.h"
#include "kv/strategy/budget.h"
#include "text/schema/json_constraint.h"

namespace kvick::engine {
namespace {

using test::DraftModelFile;

// Returns a periodic text, for which lookup drafts well, at least at its beginning.
std::vector<Token> repeating(uint32_t tokens, uint32_t period, Token first = 3) {
  std::vector<Token> text;
  for (uint32_t i = 0; i < tokens; ++i) text.push_back(first + static_cast<Token>(i % period));
  return text;
}

Request request_of(std::vector<Token> prompt, uint32_t most, float temperature) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = most;
  request.sampling.temperature = temperature;
  request.sampling.top_k = 4;
  request.sampling.seed = 11;
  request.ignore_end = true;
  return request;
}

struct Answers {
  std::vector<Answer> answers;
  uint32_t drafted = 0, accepted = 0;
};

Answers answers_of(Engine& engine, const KvOptions& kv, const std::string& spec) {
  const auto store = std::move(engine.make_store(kv)).value();
  Session session(engine, *store);
  EXPECT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
  Answers run;
  const auto answer = [&](float temperature, uint32_t most) {
    run.answers.push_back(
        std::move(session.generate(request_of(repeating(21, 5), most, temperature))).value());
    run.drafted += run.answers.back().drafted;
    run.accepted += run.answers.back().accepted;
  };
  answer(0.7F, 30);
  answer(0, 150);  // to the end of the context, or past a window
  return run;
}

void expect_equal(const Answers& plain, const Answers& drafted, const std::string& what) {
  ASSERT_EQ(plain.answers.size(), drafted.answers.size());
  for (size_t i = 0; i < plain.answers.size(); ++i) {
    EXPECT_EQ(plain.answers[i].tokens, drafted.answers[i].tokens) << what << ", answer " << i;
    EXPECT_EQ(plain.answers[i].text, drafted.answers[i].text) << what << ", answer " << i;
    EXPECT_EQ(plain.answers[i].finish, drafted.answers[i].finish) << what << ", answer " << i;
  }
}

void expect_same(Engine& engine, const KvOptions& kv, std::initializer_list<const char*> specs) {
  const Answers plain = answers_of(engine, kv, "none");
  EXPECT_EQ(plain.drafted, 0u);
  for (const char* spec : specs)
    expect_equal(plain, answers_of(engine, kv, spec),
                 kv.spec.name + " " + kv_type_text(kv) + " " + spec);
}

TEST(Speculation, GivesOnEveryStoreTheTokensOfPlainDecoding) {
  const auto engine = wide_engine();
  for (const kv::Strategy& strategy : kv::strategies())
    for (const char* type : {"f16", "mixed:window=32,old=q8", "kivi4:window=32"}) {
      if (strategy.traits.slots) continue;
      if (type[0] != 'f' && !strategy.traits.holds_old) continue;
      expect_same(*engine, kv_of(strategy, type),
                  {"lookup:most=13,gain=off,grow=on", "lookup:grow=on", "auto"});
    }
  for (const char* type : {"f32", "bf16", "k=q8,v=q4"})
    expect_same(*engine, parse_kv_options("virtual", type).value(),
                {"lookup:most=1,gain=off", "suffix:gain=off"});
}

TEST(Speculation, GivesTheTokensOfPlainDecodingFromAMemoryOfSlots) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kBct);
  spec.context = 128;
  expect_same(*engine_of(spec), {}, {"lookup:gain=off", "auto"});
}

TEST(Speculation, IsRightSometimesWhereATextRepeatsItself) {
  const auto engine = tiny_engine();
  const Answers lookup = answers_of(*engine, {}, "lookup:gain=off");
  EXPECT_GT(lookup.drafted, 0u);
  EXPECT_LE(lookup.accepted, lookup.drafted);
  // The second time the index has the request's own answer.
  const auto store = std::move(engine->make_store({})).value();
  Session session(*engine, *store);
  ASSERT_TRUE(session.speculate(parse_spec_options("suffix:gain=off").value()).ok());
  const Request request = request_of({9, 8, 7, 6, 5}, 40, 0);
  const Answer first = std::move(session.generate(request)).value();
  const Answer again = std::move(session.generate(request)).value();
  EXPECT_EQ(first.tokens, again.tokens);
  EXPECT_GT(again.accepted, 20u);
}

TEST(Speculation, DraftsByModelsAndLayersAndAnswersTheSame) {
  const auto engine = tiny_engine();
  const DraftModelFile draft;
  for (const char* kv : {"virtual", "paged", "bmc:r=8"}) {
    const KvOptions options = parse_kv_options(kv, "").value();
    const Answers plain = answers_of(*engine, options, "none");
    for (const std::string& spec :
         {std::string("skip:gain=off,layers=0"),
          std::string("skip:gain=off,layers=1,most=5,depth=2,grow=on"),
          "draft:gain=off,model=" + draft.path(),
          "draft:most=3,depth=3,gain=off,model=" + draft.path(), "draft:model=" + draft.path(),
          "draft:most=5,words=16,gain=off,model=" + draft.path(),
          "auto:words=100,model=" + draft.path()}) {
      const Answers drafted = answers_of(*engine, options, spec);
      expect_equal(plain, drafted, std::string(kv) + " " + spec);
      if (spec.find("gain=off") != std::string::npos) {
        EXPECT_GT(drafted.drafted, 0u);
      }
      // The draft model is the model itself, drawing with the same random numbers.
      if (spec.starts_with("draft:most=5")) {
        EXPECT_LT(drafted.accepted, drafted.drafted);
      }
      if (spec.starts_with("draft:most=3")) {
        EXPECT_EQ(drafted.accepted, drafted.drafted);
      }
    }
  }
}

TEST(Speculation, DraftsTheWordsOfADraftModelAsItWouldWithAllOthersForbidden) {
  const auto engine = tiny_engine();
  const DraftModelFile draft;
  const std::vector<Token> text = repeating(21, 5);
  // Returns draft tokens after the text, drawn with the same random numbers.
  const auto drafted = [&](const std::string& words, const Sampling& sampling) {
    Speculation speculation(*engine);
    const SpecOptions options =
        parse_spec_options("draft:most=4,depth=4,gain=off" + words + ",model=" + draft.path())
            .value();
    EXPECT_TRUE(speculation.prepare(options).ok());
    const Sampler sampler(sampling, engine->kernels());
    const DraftAsk ask = {.text = text, .most = 4, .depth = 4, .sampler = &sampler};
    std::vector<Token> tokens;
    for (const auto& node : speculation.begin(options)->propose(ask, plain_step(1, 0)).tree.nodes)
      tokens.push_back(node.token);
    return tokens;
  };
  Sampling sampling;
  sampling.top_k = 0;
  sampling.top_p = 1;
  for (const float temperature : {0.0F, 2.0F})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      sampling.temperature = temperature;
      sampling.seed = seed;
      sampling.logit_bias.clear();
      const std::vector<Token> some = drafted(",words=40", sampling);
      for (Token token = 40; token < 512; ++token) sampling.logit_bias[token] = -1e30F;
      const std::vector<Token> all = drafted("", sampling);
      ASSERT_FALSE(some.empty());
      // Only the first child follows the logit bias; the others are the likeliest tokens.
      EXPECT_EQ(some.front(), all.front()) << temperature << " " << seed;
      for (const Token token : some) EXPECT_LT(token, 40);
    }
}

// The tiny engine with its own model as the draft model.
struct ByModel {
  ByModel() {
    const DraftModelFile draft;
    options = parse_spec_options("draft:most=4,depth=4,gain=off,model=" + draft.path()).value();
    EXPECT_TRUE(speculation.prepare(options, nullptr, budget).ok());
  }
  std::vector<Token> drafted(Speculator& by, const std::vector<Token>& text) const {
    const Sampler sampler({.temperature = 0}, engine->kernels());
    const DraftAsk ask = {.text = text, .most = 4, .depth = 4, .sampler = &sampler};
    std::vector<Token> tokens;
    for (const auto& node : by.propose(ask, plain_step(1, 0)).tree.nodes)
      tokens.push_back(node.token);
    return tokens;
  }

  std::unique_ptr<Engine> engine = tiny_engine();
  std::shared_ptr<kv::Budget> budget = std::make_shared<kv::Budget>(uint64_t{1} << 30);
  Speculation speculation{*engine};
  SpecOptions options;
};

TEST(Speculation, GivesBackTheRowsOfADraftModelThatIsNotTrusted) {
  ByModel by;
  const auto before = by.speculation.begin(by.options);
  const std::vector<Token> text = repeating(21, 5);
  EXPECT_FALSE(by.drafted(*before, text).empty());
  EXPECT_GT(by.speculation.draft_usage().allocated_bytes, 0u);
  EXPECT_EQ(by.speculation.draft_usage().allocated_bytes, by.budget->used());
  by.speculation.distrust();
  EXPECT_EQ(by.speculation.draft_usage().allocated_bytes, 0u);
  EXPECT_EQ(by.budget->used(), 0u);
  EXPECT_EQ(by.speculation.shrink(1), 0u);
  EXPECT_EQ(by.speculation.give_up(), 0u);
  EXPECT_TRUE(by.drafted(*before, text).empty());
  EXPECT_FALSE(by.drafted(*by.speculation.begin(by.options), text).empty());
}

TEST(Speculation, DraftsNothingByAModelThatIsAskedForTheSameTextAgain) {
  ByModel by;
  const auto speculator = by.speculation.begin(by.options);
  std::vector<Token> text = repeating(21, 5);
  const std::vector<Token> first = by.drafted(*speculator, text);
  ASSERT_FALSE(first.empty());
  // The drafter now has the logits after its own draft tokens, not those after the text.
  EXPECT_TRUE(by.drafted(*speculator, text).empty());
  text.push_back(first[0]);
  EXPECT_EQ(by.drafted(*speculator, text).at(0),
            by.drafted(*by.speculation.begin(by.options), text).at(0));
}

double g_now = 0;
double slow_clock() { return g_now += 1000; }  // makes everything that is timed seem slow

TEST(Speculation, LeavesAModelOutThatTakesTooLongButForATrialNowAndThen) {
  const auto engine = tiny_engine();
  const DraftModelFile draft;
  Speculation speculation(*engine, slow_clock);
  const SpecOptions options = parse_spec_options("auto:model=" + draft.path()).value();
  ASSERT_TRUE(speculation.prepare(options).ok());
  const auto speculator = speculation.begin(options);
  const PlainStep plain = plain_step(1, 0);
  speculation.cost.observe(plain.shape, 1.0);
  const Sampler sampler({.temperature = 0}, engine->kernels());
  std::vector<Token> text = {3};
  std::vector<size_t> drafted;
  for (size_t i = 0; i < 100; ++i) {
    // Each token occurs once: there is nothing to look up.
    text.push_back(static_cast<Token>(4 + i));
    const DraftAsk ask = {.text = text, .most = 6, .depth = 6, .sampler = &sampler};
    if (speculator->propose(ask, plain).size() > 0) drafted.push_back(i);
  }
  // It is tried first while its cost is unknown, then after 32 steps, then after 64 more.
  EXPECT_EQ(drafted, (std::vector<size_t>{0, 32, 96}));
}

TEST(Speculation, RefusesADraftModelOfAnotherVocabularyAndLayersThatAreNotThere) {
  const auto engine = tiny_engine();
  const auto store = std::move(engine->make_store({})).value();
  Session session(*engine, *store);
  const auto message = [&](const std::string& spec) {
    const auto status = session.speculate(parse_spec_options(spec).value());
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_NE(message("skip:layers=99").find("layer 99"), std::string::npos);
  EXPECT_NE(message("skip:layers=0-1").find("at least one"), std::string::npos);
  EXPECT_NE(message("draft:model=/nowhere.gguf").find("/nowhere.gguf"), std::string::npos);
  tools::Spec shape = model::tiny_spec(tools::Arch::kLlama, kernels::DType::kF32);
  shape.vocab = 600;
  const DraftModelFile draft(shape);
  EXPECT_NE(message("draft:model=" + draft.path()).find("vocabulary"), std::string::npos);
}

TEST(Speculation, StaysInTheSpareRowsOfABucketUnlessItMayGrow) {
  const auto engine = tiny_engine();
  const KvOptions kv = parse_kv_options("bmc:r=8", "").value();
  const auto copied = [&](const std::string& spec) {
    const auto store = std::move(engine->make_store(kv)).value();
    Session session(*engine, *store);
    EXPECT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
    EXPECT_TRUE(session.generate(request_of(repeating(21, 5), 0, 0)).ok());
    return store->usage().copied_bytes;
  };
  const uint64_t token = engine->make_store(kv).value()->shape().token_bytes();
  // Growing to 24, 32, ... 128 rows copies 24 + 32 + ... + 120 rows.
  const uint64_t plain = copied("none");
  EXPECT_EQ(plain, (24 + 120) * 13 / 2 * token);
  const uint64_t spare = copied("lookup:most=6,gain=off");
  // Moving the rows of accepted draft tokens counts as copying too.
  EXPECT_GE(spare, plain);
  EXPECT_LT(spare, plain + 128 * token);
}

TEST(Speculation, CallsBackForEveryTokenAndEndsWhereItIsTold) {
  const auto engine = tiny_engine();
  const auto heard = [&](const std::string& spec, size_t pieces) {
    const auto store = std::move(engine->make_store({})).value();
    Session session(*engine, *store);
    EXPECT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
    Request request = request_of(repeating(21, 5), 60, 0);
    request.on_text = [&pieces](std::string_view) { return --pieces > 0; };
    return std::move(session.generate(request)).value();
  };
  for (const size_t pieces : {1u, 7u, 20u}) {
    const Answer plain = heard("none", pieces), drafted = heard("lookup:gain=off", pieces);
    EXPECT_EQ(plain.tokens, drafted.tokens);
    EXPECT_EQ(plain.text, drafted.text);
    EXPECT_EQ(plain.finish, drafted.finish);
  }
}

TEST(Speculation, DraftsNothingThatTheAnswersFormForbids) {
  const auto engine = tiny_engine(512);
  const auto trie = text::TokenTrie::make(engine->tokenizer());
  ASSERT_TRUE(trie.ok()) << trie.error().message;
  const auto answered = [&](const std::string& spec, uint64_t seed) {
    const auto store = std::move(engine->make_store({})).value();
    Session session(*engine, *store);
    EXPECT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
    Request request = request_of(repeating(21, 5), 120, 1);
    request.sampling.seed = seed;
    request.ignore_end = false;
    request.constraint = *text::json_constraint(
        *trie,
        text::Json::parse(R"({"type": "array", "items": {"type": "boolean"}, "minItems": 9})"));
    return std::move(session.generate(request)).value();
  };
  uint32_t accepted = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    const Answer plain = answered("none", seed), drafted = answered("lookup:gain=off", seed);
    EXPECT_EQ(plain.tokens, drafted.tokens);
    EXPECT_EQ(plain.finish, drafted.finish);
    accepted += drafted.accepted;
  }
  EXPECT_GT(accepted, 0u);
}

TEST(Drafts, DropWhatAFormForbidsAndAllBehindIt) {
  // Allows even tokens only, and no token twice in a row.
  struct Even final : text::Constraint {
    int32_t last = -1;
    std::unique_ptr<text::Constraint> clone() const override {
      return std::make_unique<Even>(*this);
    }
    void mask(std::span<float> logits) override {
      for (size_t i = 0; i < logits.size(); ++i)
        if (i % 2 == 1 || static_cast<int32_t>(i) == last) logits[i] = -INFINITY;
    }
    void accept(int32_t token) override { last = token; }
    bool complete() const override { return true; }
  };
  Drafts drafts;
  DraftTree& tree = drafts.tree;
  tree.add(tree.add(tree.add(-1, 2, 0), 2, 0), 4, 0);
  tree.add(0, 6, 0);
  tree.add(-1, 3, 0);
  tree.add(-1, 100, 0);
  drafts.chances.assign(tree.nodes.size(), 0.5);
  drafts.obey(Even(), 10);
  ASSERT_EQ(drafts.size(), 2u);
  EXPECT_EQ(tree.nodes[0].token, 2);
  EXPECT_EQ(tree.nodes[1].token, 6);
  EXPECT_EQ(tree.nodes[1].parent, 0);
  EXPECT_EQ(drafts.chances.size(), 2u);
}

TEST(Speculation, LeavesRowsThatTheNextTurnGoesOnFrom) {
  const auto engine = tiny_engine();
  const auto second_turn = [&](const std::string& spec) {
    const auto store = std::move(engine->make_store({})).value();
    Session session(*engine, *store);
    EXPECT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
    std::vector<Token> text = repeating(21, 5);
    const Answer first = std::move(session.generate(request_of(text, 30, 0))).value();
    text.insert(text.end(), first.tokens.begin(), first.tokens.end());
    text.insert(text.end(), {1, 2});
    return std::move(session.generate(request_of(text, 30, 0))).value();
  };
  const Answer plain = second_turn("none"), drafted = second_turn("lookup:gain=off");
  EXPECT_EQ(drafted.cached_tokens, 50u);
  EXPECT_EQ(plain.cached_tokens, drafted.cached_tokens);
  EXPECT_EQ(plain.tokens, drafted.tokens);
}

}  // namespace
}  // namespace kvick::engine
