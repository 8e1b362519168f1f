// How answers end, and how much of the end is in their text.

#include "engine/answer/answer_writer.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

class AnswerWriterTest : public testing::Test {
 protected:
  Token token_of(const char* text) const {
    return engine_->tokenizer().encode(text, false, false).front();
  }
  Token end() const { return engine_->tokenizer().ends().front(); }
  // The answer of a model that wants these tokens: one list for each step, the likeliest first.
  struct Written {
    std::string text;
    std::vector<Token> tokens;
    std::optional<Finish> finish;
  };
  Written write(AnswerForm form, const std::vector<std::vector<Token>>& wanted) const {
    form.sampling = {.temperature = 0};
    AnswerWriter writer(engine_->tokenizer(), engine_->kernels(), {}, form);
    Written all;
    for (const std::vector<Token>& some : wanted) {
      std::vector<float> logits(engine_->model().config().vocab, -1000);
      for (size_t i = 0; i < some.size(); ++i)
        logits[static_cast<size_t>(some[i])] = -static_cast<float>(i);
      WrittenTokens one = writer.next(logits, true);
      all.text += one.text;
      if (one.token) all.tokens.push_back(*one.token);
      all.finish = one.finish;
      if (one.finish) break;
    }
    return all;
  }
  std::unique_ptr<Engine> engine_ = tiny_engine();
};

// A second choice copies what the first one knows of the prompt.
TEST_F(AnswerWriterTest, ChoosesAlikeWhetherItHasReadThePromptOrTakenItFromAnotherChoice) {
  std::vector<Token> prompt;
  for (Token i = 0; i < 60; ++i) prompt.push_back(40 + i % 7);
  const size_t vocab = engine_->model().config().vocab;
  const auto choices = [&](AnswerWriter writer) {
    std::vector<Token> chosen;
    for (size_t step = 0; step < 20; ++step) {
      std::vector<float> logits(vocab, -20);
      for (size_t token = 38; token < 50; ++token)
        logits[token] = 0.3F * static_cast<float>((token * 7 + step * 5) % 11);
      chosen.push_back(*writer.next(logits, true).token);
    }
    return chosen;
  };
  AnswerForm form = {.ignore_end = true};
  form.sampling.repetition_penalty = 1.3F;
  form.sampling.dry.multiplier = 2;
  const AnswerWriter first(engine_->tokenizer(), engine_->kernels(), prompt, form);
  form.sampling.seed = 5;
  const auto read = choices(AnswerWriter(engine_->tokenizer(), engine_->kernels(), prompt, form));
  EXPECT_EQ(choices(AnswerWriter(first, engine_->kernels(), form)), read);
  EXPECT_NE(choices(AnswerWriter(engine_->tokenizer(), engine_->kernels(), {}, form)), read);
}

TEST_F(AnswerWriterTest, StopsAtAStopTokenAsAtTheModelsEnd) {
  const Token a = token_of("a"), b = token_of("b");
  const Written stopped = write({.stop_tokens = {b}}, {{a}, {b}, {a}});
  EXPECT_EQ(stopped.tokens, std::vector<Token>{a});
  EXPECT_EQ(stopped.finish, Finish::kStop);
  const Written ended = write({}, {{a}, {end()}, {a}});
  EXPECT_EQ(ended.text, stopped.text);
  EXPECT_EQ(ended.finish, Finish::kEnd);
  // Also where the model's own end is ignored.
  EXPECT_EQ(write({.stop_tokens = {b}, .ignore_end = true}, {{end()}, {b}}).finish, Finish::kStop);
}

TEST_F(AnswerWriterTest, HasTheStopInItsTextWhereThatIsAsked) {
  const Token a = token_of("a"), b = token_of("b"), c = token_of("c");
  EXPECT_EQ(write({.stop = {"b"}}, {{a}, {b}, {c}}).text, "a");
  EXPECT_EQ(write({.stop = {"b"}, .with_stop = true}, {{a}, {b}, {c}}).text, "ab");
  EXPECT_EQ(write({.stop_tokens = {b}, .with_stop = true}, {{a}, {b}, {c}}).text, "ab");
}

TEST_F(AnswerWriterTest, DoesNotEndBeforeItsLeastLength) {
  const Token a = token_of("a"), b = token_of("b"), c = token_of("c");
  const std::vector<std::vector<Token>> wanted = {{end(), a}, {b, a}, {end(), a}, {end(), a}};
  const Written least = write({.least = 3, .stop_tokens = {b}}, wanted);
  EXPECT_EQ(least.tokens, (std::vector<Token>{a, a, a}));
  EXPECT_EQ(least.finish, Finish::kEnd);
  // Stop texts count after the least length.
  const Written text = write({.least = 2, .stop = {"b"}}, {{b}, {b}, {c}, {b}});
  EXPECT_EQ(text.text, "bbc");
  EXPECT_EQ(text.finish, Finish::kStop);
  EXPECT_EQ(write({.most = 2, .least = 2}, {{end(), a}, {end(), c}}).finish, Finish::kLength);
}

TEST_F(AnswerWriterTest, NamesControlTokensWhereThatIsAsked) {
  const Token a = token_of("a");
  const std::string name = engine_->tokenizer().piece(end(), true);
  ASSERT_FALSE(name.empty());
  EXPECT_EQ(write({.ignore_end = true}, {{a}, {end()}, {a}}).text, "aa");
  EXPECT_EQ(write({.special_text = true, .ignore_end = true}, {{a}, {end()}, {a}}).text,
            "a" + name + "a");
}

TEST_F(AnswerWriterTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(check({.most = 2, .least = 2, .stop_tokens = {3}}, 4).ok());
  EXPECT_FALSE(check({.most = 2, .least = 3}, 4).ok());
  EXPECT_FALSE(check({.stop_tokens = {4}}, 4).ok());
  EXPECT_FALSE(check({.stop_tokens = {-1}}, 4).ok());
}

TEST_F(AnswerWriterTest, EndsWhereItRepeatsItselfIfThatIsAsked) {
  const Token a = token_of("a");
  const std::vector<std::vector<Token>> wanted(200, {a});
  EXPECT_EQ(write({}, wanted).finish, std::nullopt);
  const Written looped = write({.stop_loops = true}, wanted);
  EXPECT_EQ(looped.finish, Finish::kLoop);
  EXPECT_EQ(looped.tokens.size(), LoopWatch::kTokens);
  EXPECT_EQ(looped.text, std::string(LoopWatch::kTokens, 'a'));
  EXPECT_EQ(finish_name(Finish::kLoop), "stop");
  // A loop ends no answer before its least length, and none that ignores its end.
  EXPECT_EQ(write({.least = 150, .stop_loops = true}, wanted).tokens.size(), 151U);
  EXPECT_EQ(write({.ignore_end = true, .stop_loops = true}, wanted).finish, std::nullopt);
  EXPECT_EQ(write({.most = LoopWatch::kTokens, .stop_loops = true}, wanted).finish, Finish::kLoop);
}

}  // namespace
}  // namespace kvick::engine
