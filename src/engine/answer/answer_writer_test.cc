// How answers end, and what of that is in their text.

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
  // An answer whose model wants these tokens, the first of which that is allowed is taken; then it
  // wants a token that nobody has.
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
  // Stop texts count from there on.
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

}  // namespace
}  // namespace kvick::engine
