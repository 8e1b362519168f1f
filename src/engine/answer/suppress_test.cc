#include "engine/answer/suppress.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "engine/answer/answer_writer.h"
#include "text/tokenizer/test_vocabulary.h"

namespace kvick::engine {
namespace {

using Logits = std::vector<float>;
constexpr float kNever = -INFINITY;

text::Vocabulary suppressing(std::vector<Token> always, std::vector<Token> first = {}) {
  text::Vocabulary v = text::byte_vocabulary({});
  v.suppressed = std::move(always);
  v.suppressed_first = std::move(first);
  return v;
}

TEST(Suppress, SomeTokensAreForbiddenOnlyAtTheBeginning) {
  const text::Vocabulary v = suppressing({1}, {3});
  Logits first = {4, 5, 6, 7}, later = first;
  suppress(v, true, first);
  EXPECT_EQ(first, (Logits{4, kNever, 6, kNever}));
  suppress(v, false, later);
  EXPECT_EQ(later, (Logits{4, kNever, 6, 7}));
}

TEST(Suppress, WhatAConstraintAllowsAloneStays) {
  Logits logits = {kNever, 5, kNever, 7};
  suppress(suppressing({1, 3, 1}), false, logits);
  EXPECT_EQ(logits, (Logits{kNever, 5, kNever, 7}));
  suppress(suppressing({1}), false, logits);
  EXPECT_EQ(logits, (Logits{kNever, kNever, kNever, 7}));
}

TEST(Suppress, AnswersDoNotHaveTheModelsSuppressedTokens) {
  const auto made = text::Tokenizer::make(suppressing({'b'}, {'c'}));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const text::Tokenizer& tokenizer = **made;
  const kernels::Table& kernels = kernels::table(base::Isa::kScalar);
  for (const float temperature : {0.0F, 1.0F}) {
    AnswerForm form;
    form.sampling.temperature = temperature;
    AnswerWriter writer(tokenizer, kernels, {}, form);
    std::string text;
    for (size_t step = 0; step < 3; ++step) {
      Logits logits(tokenizer.vocabulary().pieces.size(), -1000);
      logits['b'] = 200, logits['c'] = 100, logits['d'] = 0;
      text += writer.next(logits, true).text;
    }
    EXPECT_EQ(text, "dcc") << temperature;
  }
}

}  // namespace
}  // namespace kvick::engine
