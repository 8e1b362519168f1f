#include "engine/session/session.h"

#include <cmath>
#include <gtest/gtest.h>
#include <new>
#include <stdexcept>

#include "engine/core/test_engine.h"
#include "text/schema/json_constraint.h"

namespace kvick::engine {
namespace {

struct Fixture {
  explicit Fixture(const KvOptions& kv = {}) : engine(tiny_engine()) {
    store = std::move(engine->make_store(kv)).value();
    session = std::make_unique<Session>(*engine, *store);
  }
  static Request request(std::vector<Token> prompt, uint32_t most) {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = most;
    r.sampling.temperature = 0;
    r.ignore_end = true;
    return r;
  }
  Answer generate(std::vector<Token> prompt, uint32_t most) {
    return std::move(session->generate(request(std::move(prompt), most))).value();
  }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<kv::Store> store;
  std::unique_ptr<Session> session;
};

// A store whose open() throws when the test says so.
class ThrowingStore final : public kv::Store {
 public:
  explicit ThrowingStore(std::unique_ptr<kv::Store> inner)
      : kv::Store(inner->info()), inner_(std::move(inner)) {}
  kv::Opened open(std::span<const Token> prompt, const kv::Owner& owner) override {
    if (opens_left == 0) throw std::bad_alloc();
    --opens_left;
    return inner_->open(prompt, owner);
  }
  base::Result<kv::SeqId, kv::Shortage> fork(kv::SeqId seq) override { return inner_->fork(seq); }
  void close(kv::SeqId seq) override { inner_->close(seq); }
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override {
    return inner_->begin(batch);
  }
  uint32_t length(kv::SeqId seq) const override { return inner_->length(seq); }
  kv::Usage usage() const override { return inner_->usage(); }
  kv::StoreFacets facets() override { return inner_->facets(); }

  uint32_t opens_left = UINT32_MAX;

 private:
  std::unique_ptr<kv::Store> inner_;
};

// The store stops the program if a sequence is closed twice.
TEST(Session, AnswersTheNextPromptAfterTheStoreThrewWhileASequenceWasReplaced) {
  Fixture f;
  const std::vector<Token> other = {9, 8, 7, 6};
  const std::vector<Token> expected = Fixture().generate(other, 5).tokens;
  for (const uint32_t opens : {0U, 1U}) {
    ThrowingStore store(std::move(f.engine->make_store({})).value());
    {
      Session session(*f.engine, store);
      ASSERT_TRUE(session.generate(Fixture::request({1, 2, 3}, 5)).ok());
      store.opens_left = opens;
      EXPECT_THROW((void)session.generate(Fixture::request(other, 5)), std::bad_alloc);
      store.opens_left = UINT32_MAX;
      const auto again = session.generate(Fixture::request(other, 5));
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(again->tokens, expected);
      store.opens_left = opens;
      EXPECT_THROW((void)session.generate(Fixture::request({1, 2, 3}, 5)), std::bad_alloc);
    }
    EXPECT_EQ(store.usage().used_bytes, 0U) << "the session left a sequence open";
  }
}

// A policy that forgets keeps a step's rows, and their scores, apart until the step ends.
TEST(Session, ReadsAPromptInShorterPiecesWhereALongOneFindsNoRoom) {
  const auto engine = tiny_engine(256);
  std::vector<Token> prompt;
  for (Token token = 1; token <= 100; ++token) prompt.push_back(token);
  for (const char* policy : {"snapkv:budget=24,drop=1,window=8", "h2o:budget=24"}) {
    SCOPED_TRACE(policy);
    KvOptions kv = parse_kv_options("", "", "", policy).value();
    const auto bytes = [&](uint32_t step) {
      return engine->cost(kv, {.tokens = 110, .step = step}).value().fast_bytes;
    };
    const uint64_t all = bytes(100), some = bytes(25);
    ASSERT_LT(some, all);
    kv.max_bytes = some;
    const auto store = std::move(engine->make_store(kv)).value();
    Session session(*engine, *store);
    std::vector<uint32_t> ends;  // of the pieces
    Request request = Fixture::request(prompt, 10);
    request.on_prefill = [&](uint32_t done, uint32_t) { ends.push_back(done); };
    const auto answer = session.generate(request);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->tokens.size(), 10U);
    EXPECT_GT(ends.size(), 1U);
    EXPECT_EQ(ends.back(), 100U);
  }
}

// The rows of every token stay, so shorter pieces do not help.
TEST(Session, SaysWhenAPromptFindsNoRoomInAnyPieces) {
  const auto engine = tiny_engine(256);
  KvOptions kv = parse_kv_options("paged:block=8", "").value();
  kv.max_bytes = engine->cost(kv, {.tokens = 50}).value().fast_bytes;
  const auto store = std::move(engine->make_store(kv)).value();
  Session session(*engine, *store);
  const auto answer = session.generate(Fixture::request(std::vector<Token>(200, 7), 10));
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("no room for more tokens of the prompt: "),
            std::string::npos)
      << answer.error().message;
  EXPECT_TRUE(session.generate(Fixture::request({1, 2, 3}, 4)).ok());
}

TEST(Session, GeneratesAsManyTokensAsAsked) {
  Fixture f;
  for (const uint32_t n : {1u, 5u, 20u}) {
    const Answer answer = f.generate({1, 2, 3}, n);
    EXPECT_EQ(answer.tokens.size(), n);
    EXPECT_EQ(answer.finish, Finish::kLength);
    EXPECT_EQ(answer.prompt_tokens, 3u);
  }
}

TEST(Session, AnswersWithoutDraftTokensWhereDraftingThrows) {
  // The answer clones its form once; only drafting clones that clone.
  struct Fragile final : text::Constraint {
    bool cloned = false;
    std::unique_ptr<text::Constraint> clone() const override {
      if (cloned) throw std::runtime_error("a bug");
      auto copy = std::make_unique<Fragile>();
      copy->cloned = true;
      return copy;
    }
    void mask(std::span<float> logits) override {
      for (size_t i = 0; i < logits.size(); ++i)
        if (i < 10 || i >= 40) logits[i] = -INFINITY;
    }
    void accept(int32_t) override {}
    bool complete() const override { return false; }
  };
  const auto answered = [](const char* spec) {
    Fixture f;
    EXPECT_TRUE(f.session->speculate(parse_spec_options(spec).value()).ok());
    Request request = Fixture::request({3, 4, 5}, 20);
    request.ignore_end = false;
    request.constraint = std::make_shared<Fragile>();
    return std::move(f.session->generate(request)).value();
  };
  const Answer plain = answered("none"), failed = answered("skip:gain=off,layers=0");
  EXPECT_EQ(plain.draft_failure, "");
  EXPECT_EQ(plain.tokens.size(), 20u);
  EXPECT_EQ(failed.draft_failure, "a bug");
  EXPECT_EQ(failed.drafted, 0u);
  EXPECT_EQ(failed.tokens, plain.tokens);
}

TEST(Session, StopsWhereTheContextEnds) {
  Fixture f;
  const Answer answer = f.generate({1, 2, 3}, 0);
  // 128 rows: 3 of the prompt and 125 of generated tokens. The last token needs no row.
  EXPECT_EQ(answer.tokens.size(), 126u);
  EXPECT_EQ(answer.finish, Finish::kLength);
  const Answer full = f.generate(std::vector<Token>(128, 7), 10);
  EXPECT_EQ(full.tokens.size(), 1u);
}

TEST(Session, ReusesTheConversationAndAnswersTheSame) {
  Fixture f;
  const std::vector<Token> first = {1, 2, 3, 4};
  const Answer answer = f.generate(first, 6);
  std::vector<Token> second = first;
  second.insert(second.end(), answer.tokens.begin(), answer.tokens.end());
  second.insert(second.end(), {9, 8});
  const Answer warm = f.generate(second, 8);
  EXPECT_EQ(warm.cached_tokens, 9u);  // the last generated token has no row
  Fixture cold;
  const Answer again = cold.generate(second, 8);
  EXPECT_EQ(again.cached_tokens, 0u);
  EXPECT_EQ(warm.tokens, again.tokens);
  // A different conversation starts anew.
  EXPECT_EQ(f.generate({5, 5, 5}, 8).tokens, cold.generate({5, 5, 5}, 8).tokens);
}

TEST(Session, SaysWhatIsWrongWithARequestAndGoesOn) {
  Fixture f;
  const auto message = [&](const Request& r) {
    const auto answer = f.session->generate(r);
    return answer.ok() ? std::string() : answer.error().message;
  };
  EXPECT_NE(message(Fixture::request({}, 1)).find("empty"), std::string::npos);
  EXPECT_NE(message(Fixture::request(std::vector<Token>(129, 1), 1)).find("129 tokens"),
            std::string::npos);
  Request hot = Fixture::request({1}, 1);
  hot.sampling.top_p = 7;
  EXPECT_NE(message(hot).find("top-p"), std::string::npos);
  EXPECT_EQ(f.generate({1, 2}, 4).tokens.size(), 4u);
}

TEST(Session, RefusesABiasOfARowThatOnlyPadsTheOutputLayer) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.unnamed = 12;  // of 512 rows of the output layer
  const auto engine = engine_of(spec);
  const auto store = std::move(engine->make_store({})).value();
  Session session(*engine, *store);
  Request request;
  request.prompt = {5, 499};
  request.max_tokens = 1;
  request.sampling.logit_bias[499] = 1;
  EXPECT_TRUE(session.generate(request).ok());
  request.sampling.logit_bias[500] = 1;
  const auto answer = session.generate(request);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("the vocabulary ends at 499"), std::string::npos);
}

TEST(Session, SaysWhenTheCacheHasNoRoom) {
  Fixture f({.max_bytes = 4096});
  const auto answer = f.session->generate(Fixture::request(std::vector<Token>(100, 1), 4));
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("no room"), std::string::npos) << answer.error().message;
}

// A store that loses the sequence at its third step.
class LosingStore final : public kv::Store {
 public:
  explicit LosingStore(std::unique_ptr<kv::Store> inner)
      : Store(inner->info()), inner_(std::move(inner)) {}
  kv::Opened open(std::span<const Token> prompt, const kv::Owner& owner) override {
    return inner_->open(prompt, owner);
  }
  base::Result<kv::SeqId, kv::Shortage> fork(kv::SeqId seq) override { return inner_->fork(seq); }
  void close(kv::SeqId seq) override { inner_->close(seq); }
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override {
    if (++begun_ == 3) health_.lost = batch.slots[0].seq;
    return inner_->begin(batch);
  }
  uint32_t length(kv::SeqId seq) const override { return inner_->length(seq); }
  kv::Usage usage() const override { return inner_->usage(); }
  kv::StoreFacets facets() override {
    kv::StoreFacets facets = inner_->facets();
    facets.health = &health_;
    return facets;
  }

 private:
  struct Lost final : kv::Health {
    std::optional<kv::SeqId> lost;
    std::string failure(kv::SeqId seq) const override { return seq == lost ? "no memory" : ""; }
    bool ran_out_of_memory(kv::SeqId seq) const override { return seq == lost; }
  };
  std::unique_ptr<kv::Store> inner_;
  Lost health_;
  int begun_ = 0;
};

TEST(Session, SaysThatACommitHasLostItsRowsAndAnswersTheNextPrompt) {
  for (const char* spec : {"none", "lookup:gain=off"}) {
    Fixture plain;
    LosingStore store(std::move(plain.engine->make_store({})).value());
    Session session(*plain.engine, store);
    ASSERT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
    const std::vector<Token> prompt = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    const auto lost = session.generate(Fixture::request(prompt, 40));
    ASSERT_FALSE(lost.ok()) << spec;
    EXPECT_EQ(lost.error().message, "the session's rows are lost: no memory");
    const auto next = session.generate(Fixture::request(prompt, 40));
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(next->cached_tokens, 0u);
    EXPECT_EQ(next->tokens, plain.generate(prompt, 40).tokens);
  }
}

TEST(Session, GoesOnPastTheContextWithAnEndlessCache) {
  KvOptions kv = {.spec = {.name = "sliding", .options = {}}, .max_tokens = 32};
  Fixture f(kv), all;
  const std::vector<Token> prompt = {1, 2, 3};
  const Answer answer = f.generate(prompt, 400);  // the model's context is 128
  ASSERT_EQ(answer.tokens.size(), 400u);
  const Answer exact = all.generate(prompt, 30);
  EXPECT_TRUE(std::equal(exact.tokens.begin(), exact.tokens.end(), answer.tokens.begin()));
  EXPECT_EQ(f.generate(std::vector<Token>(300, 7), 5).tokens.size(), 5u);
}

// Each layer looks one row further back, so two layers with a window of one row see three tokens.
// Tokens of one chunk all see each other, so the last tokens come one per turn.
TEST(Session, AnEndlessCacheForgetsWhatLeftItsWindow) {
  const auto last = [](uint32_t context, Token first) {
    Fixture f({.spec = {.name = "sliding", .options = {}}, .max_tokens = context});
    std::vector<Token> prompt(40, first);
    std::vector<Token> answers;
    for (Token t = 20; t < 40; ++t) {
      prompt.push_back(t);
      const Answer answer = f.generate(prompt, 1);
      EXPECT_EQ(answer.cached_tokens, t == 20 ? 0 : prompt.size() - 1);
      if (t >= 23) answers.push_back(answer.tokens[0]);
    }
    return answers;
  };
  EXPECT_EQ(last(2, 5), last(2, 6));
  EXPECT_NE(last(128, 5), last(128, 6));
}

TEST(Session, EndsAtAStopStringAndLeavesItOut) {
  Fixture f;
  const Answer free = f.generate({1, 2, 3}, 30);
  ASSERT_GT(free.text.size(), 6u);
  Request r = Fixture::request({1, 2, 3}, 30);
  r.stop = {free.text.substr(4, 2)};
  std::string streamed;
  r.on_text = [&](std::string_view piece) {
    streamed += piece;
    return true;
  };
  const auto stopped = f.session->generate(r);
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->finish, Finish::kStop);
  EXPECT_EQ(stopped->text, free.text.substr(0, free.text.find(r.stop[0])));
  EXPECT_EQ(streamed, stopped->text);
}

TEST(Session, EndsWhenTheListenerHasHeardEnough) {
  Fixture f;
  Request r = Fixture::request({1, 2, 3}, 50);
  r.on_text = [](std::string_view) { return false; };
  const auto answer = f.session->generate(r);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->finish, Finish::kCancelled);
  EXPECT_LT(answer->tokens.size(), 50u);
}

TEST(Session, HoldsTheAnswerToItsForm) {
  Fixture f;
  const auto tokens = text::TokenTrie::make(f.engine->tokenizer());
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  Request r = Fixture::request({1, 2, 3}, 0);
  r.ignore_end = false;
  r.sampling.temperature = 1;
  r.constraint = *text::json_constraint(
      *tokens,
      text::Json::parse(R"({"properties": {"a": {"type": "integer"}}, "required": ["a"]})"));
  for (const uint64_t seed : {1, 2, 3}) {
    r.sampling.seed = seed;
    const auto answer = f.session->generate(r);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->finish, Finish::kEnd);
    const auto value = text::Json::parse(answer->text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << answer->text;
    EXPECT_TRUE(value["a"].is_number_integer()) << answer->text;
  }
  r.sampling.logit_bias[5] = -INFINITY;
  EXPECT_EQ(f.session->generate(r).error().message,
            "an infinite logit bias cannot be combined with a constrained answer (schema, grammar, "
            "choice or tool call); use a finite one");
  r.ignore_end = true;
  EXPECT_EQ(f.session->generate(r).error().message,
            "a constrained answer (schema, grammar, choice or tool call) ends where it is "
            "complete; do not ignore the end");
}

}  // namespace
}  // namespace kvick::engine
