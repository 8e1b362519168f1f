#include "engine/eval/answer_prompts.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

std::vector<std::vector<Token>> repeating_prompts() {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 5; ++i) {
    std::vector<Token>& prompt = prompts.emplace_back();
    for (Token t = 0; t < 10 + 4 * i; ++t) prompt.push_back(7 + i + t % (2 + i));
  }
  return prompts;
}

Answered answered(Engine& engine, const char* kv, const char* spec, uint32_t parallel) {
  AnswerOptions options;
  options.kv = parse_kv_options(kv, "").value();
  options.spec = parse_spec_options(spec).value();
  options.tokens = 30;
  options.parallel = parallel;
  options.ignore_end = true;
  return std::move(answer_prompts(engine, repeating_prompts(), options)).value();
}

TEST(AnswerPrompts, GivesTheSameAnswersHoweverManyAtOnceAndHoweverDrafted) {
  const auto engine = tiny_engine();
  const Answered plain = answered(*engine, "virtual", "none", 1);
  ASSERT_EQ(plain.answers.size(), 5u);
  EXPECT_EQ(plain.written, 5u * 29);
  EXPECT_EQ(plain.tokens, plain.written);
  EXPECT_EQ(plain.tokens_per_pass(), 1.0);
  EXPECT_GT(plain.seconds, 0);
  for (const char* kv : {"virtual", "bmc:r=8", "iterative", "paged"})
    for (const char* spec : {"none", "lookup", "auto", "lookup:grow=on"})
      for (const uint32_t parallel : {1u, 2u, 5u, 9u}) {
        SCOPED_TRACE(fmt::format("{} {} {}", kv, spec, parallel));
        const Answered other = answered(*engine, kv, spec, parallel);
        EXPECT_EQ(other.answers, plain.answers);
        EXPECT_EQ(other.written, plain.written);
        EXPECT_LE(other.tokens, other.written);
        EXPECT_GT(other.tokens, 0u);
        EXPECT_LE(other.accepted, other.drafted);
      }
}

TEST(AnswerPrompts, RefusesWhatCannotBeAnswered) {
  const auto engine = tiny_engine();
  AnswerOptions options;
  EXPECT_FALSE(answer_prompts(*engine, {}, options).ok());
  const std::vector<std::vector<Token>> long_one = {std::vector<Token>(200, 5)};
  for (const uint32_t parallel : {1u, 2u}) {
    options.parallel = parallel;
    const auto refused = answer_prompts(*engine, long_one, options);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("shorten it"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvick::engine
