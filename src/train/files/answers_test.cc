#include <cmath>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/formats/dtype.h"
#include "train/files/binary_file.h"
#include "train/files/q8_0.h"
#include "train/settings/mistake.h"
#include "train/settings/test_mistake.h"
#include "train/tasks/answer_task.h"

namespace kvick::train {
namespace {

// Returns sequences of the given lengths. At each position the likely tokens are the token itself
// and 900.
AnswerData counting(const std::vector<uint64_t>& lengths) {
  AnswerData data{.vocab = 1000, .vocabulary = {2, "two"}, .top = 2};
  for (const uint64_t length : lengths) {
    for (uint64_t i = 0; i < length; ++i) {
      const auto token = static_cast<int32_t>(data.tokens.size());
      data.tokens.push_back(token);
      data.likeliest.insert(data.likeliest.end(), {token, 900});
      data.chances.insert(data.chances.end(), {i == 0 ? 0 : 0.75F, i == 0 ? 0 : 0.125F});
    }
    data.ends.push_back(data.tokens.size());
  }
  return data;
}

Settings settings_of(uint64_t ctx) {
  Settings settings;
  settings.model.ctx = ctx;
  settings.run.task = "answers";
  settings.run.batch = 8;
  return settings;
}

TEST(Answers, SurviveTheirFile) {
  const std::string path = testing::TempDir() + "kvick_answers_" + std::to_string(getpid());
  AnswerData data = counting({3, 5});
  write_answers(path, data);
  const AnswerData again = read_answers(path);
  EXPECT_EQ(again.vocab, 1000u);
  EXPECT_EQ(again.vocabulary.bytes, "two");
  EXPECT_EQ(again.top, 2u);
  EXPECT_EQ(again.ends, data.ends);
  EXPECT_EQ(again.tokens, data.tokens);
  EXPECT_EQ(again.likeliest, data.likeliest);
  EXPECT_EQ(again.chances, data.chances);

  const auto refusal = [&](const std::function<void(AnswerData&)>& spoil) {
    AnswerData spoilt = data;
    spoil(spoilt);
    write_answers(path, spoilt);
    return mistake_of([&] { read_answers(path); });
  };
  EXPECT_EQ(refusal([](AnswerData& d) { d.likeliest[3] = 1000; }),
            path + ": holds token 1000 of a vocabulary of 1000");
  EXPECT_EQ(refusal([](AnswerData& d) { d.ends.back() = 7; }),
            path + ": its sequences do not make up its 8 tokens");
  EXPECT_EQ(refusal([](AnswerData& d) { d.top = 3; }),
            path + ": has 16 likely tokens where 8 tokens have 3 each");
  EXPECT_EQ(refusal([](AnswerData& d) { d.chances[2] = NAN; }),
            path + ": holds a probability of nan");
  write_text(path, "text");
  EXPECT_EQ(mistake_of([&] { read_answers(path); }),
            path + ": is no file of answers; kvick train answers makes one");
  std::filesystem::remove(path);
}

TEST(Answers, AskForWhatTheModelWouldSay) {
  const AnswerData data = counting({9, 4, 30});
  const auto task = answers_of(data, settings_of(12));
  for (uint64_t step = 0; step < 20; ++step) {
    const Batch batch = task->training(step);
    ASSERT_EQ(batch.rows, 8u);
    ASSERT_EQ(batch.tokens, 12u);
    ASSERT_EQ(batch.likeliest.size(), 8u * 12 * 2);
    for (uint64_t i = 0; i < 8 * 12; ++i) {
      const int64_t token = batch.inputs[i];
      ASSERT_GE(token, 9);  // the first sequence, of 9 tokens, is held out
      const bool asked =
          i % 12 == 0 || batch.targets[i - 1] != kNotAsked ? token != 12 && token != 42 : false;
      EXPECT_EQ(batch.targets[i], asked ? token + 1 : kNotAsked) << i;
      EXPECT_EQ(batch.chances[2 * i], asked ? 0.75F : 0);
      if (!asked) continue;
      EXPECT_EQ(batch.likeliest[2 * i], token + 1);
    }
    EXPECT_EQ(batch.inputs, answers_of(data, settings_of(12))->training(step).inputs);
  }
  const Batch held_out = task->held_out(0);
  EXPECT_EQ(held_out.rows, 1u);
  EXPECT_EQ(held_out.inputs[0], 0);
  EXPECT_EQ(task->held_out(1).rows, 0u);
}

TEST(Answers, AreAtLeastTwo) {
  const AnswerData data = counting({9, 1});
  EXPECT_EQ(mistake_of([&] { answers_of(data, settings_of(12)); }),
            "the data has 1 answers to learn from, and at least 2 are needed");
}

TEST(Q8_0, IsWhatReadersOfFilesTakeItFor) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const float value = kernels::f16_to_f32(static_cast<uint16_t>(bits));
    ASSERT_EQ(half_of(value), bits);
    ASSERT_EQ(half_of(-value), bits | 0x8000);
  }
  for (const float value : {1e-9F, 3e-8F, 6.1e-5F, 0.1F, 1.00049F, 3.14159F, 2049.0F, 65503.0F})
    EXPECT_EQ(half_of(value), kernels::f32_to_f16(value)) << value;
  std::vector<float> values(64), again(64);
  for (int i = 0; i < 64; ++i)
    values[static_cast<size_t>(i)] = std::sin(1.7F * i) * (i < 32 ? 1 : 0);
  const std::string blocks = q8_0_blocks(values.data(), values.size());
  ASSERT_EQ(blocks.size(), 2 * kBlockBytes);
  kernels::to_f32(kernels::DType::kQ8_0, reinterpret_cast<const std::byte*>(blocks.data()), 64,
                  again.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(again[i], values[i], i < 32 ? 0.0045 : 0) << i;
}

}  // namespace
}  // namespace kvick::train
