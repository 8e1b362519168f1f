#include "train/tasks/tasks.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>

namespace kvick::train {
namespace {

TokenData counting(size_t train, size_t held_out) {
  TokenData data{.vocab = 1000, .vocabulary = {}, .train = {}, .held_out = {}};
  data.train.resize(train);
  data.held_out.resize(held_out);
  std::iota(data.train.begin(), data.train.end(), 0);
  std::iota(data.held_out.begin(), data.held_out.end(), 500);
  return data;
}

Settings settings_of(const std::string& task) {
  Settings settings;
  settings.model.ctx = 8;
  settings.run.task = task;
  settings.run.batch = 3;
  settings.run.pairs = 5;
  settings.run.symbols = 40;
  return settings;
}

TEST(Tasks, TextAsksForTheNextTokenOfEachPlace) {
  const TokenData data = counting(9, 0);
  const Batch batch = make_task(settings_of("text"), {.text = &data})->training(7);
  ASSERT_EQ(batch.inputs.size(), 24u);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    EXPECT_EQ(batch.inputs[i], static_cast<int64_t>(i % 8));
    EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
  }
}

TEST(Tasks, ABatchIsAFunctionOfItsNumber) {
  const TokenData data = counting(400, 100);
  for (const char* name : {"text", "mqar", "copy"}) {
    const auto task = make_task(settings_of(name), {.text = &data});
    EXPECT_EQ(task->training(3).inputs,
              make_task(settings_of(name), {.text = &data})->training(3).inputs);
    EXPECT_NE(task->training(3).inputs, task->training(4).inputs);
    EXPECT_NE(task->training(0).inputs, task->held_out(0).inputs);
  }
}

TEST(Tasks, HeldOutTextIsReadOnceFromEndToEnd) {
  const TokenData data = counting(100, 42);
  const auto task = make_task(settings_of("text"), {.text = &data});
  std::vector<int64_t> read;
  for (uint64_t i = 0;; ++i) {
    const Batch batch = task->held_out(i);
    if (batch.rows == 0) break;
    EXPECT_EQ(batch.inputs.size(), batch.rows * batch.tokens);
    read.insert(read.end(), batch.inputs.begin(), batch.inputs.end());
  }
  ASSERT_EQ(read.size(), 40u);
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], static_cast<int64_t>(500 + i));
}

TEST(Tasks, RecallAsksForTheValueThatItsKeyHadBefore) {
  const Batch batch = make_task(settings_of("mqar"), {})->training(1);
  ASSERT_EQ(batch.tokens, 19u);
  for (uint64_t row = 0; row < batch.rows; ++row) {
    const int64_t* in = &batch.inputs[row * batch.tokens];
    std::map<int64_t, int64_t> values;
    size_t asked = 0;
    for (size_t i = 0; i < 10; i += 2) values[in[i]] = in[i + 1];
    EXPECT_EQ(values.size(), 5u);
    for (size_t t = 0; t < batch.tokens; ++t) {
      const int64_t target = batch.targets[row * batch.tokens + t];
      if (target == kNotAsked) continue;
      ++asked;
      EXPECT_GE(t, 10u);
      EXPECT_EQ(target, values.at(in[t]));
    }
    EXPECT_EQ(asked, 5u);
  }
}

TEST(Tasks, CopyingAsksForAllOfIt) {
  const Batch batch = make_task(settings_of("copy"), {})->training(1);
  ASSERT_EQ(batch.tokens, 10u);
  for (size_t t = 0; t < 5; ++t) {
    EXPECT_EQ(batch.targets[t], kNotAsked);
    EXPECT_EQ(batch.targets[5 + t], batch.inputs[t]);
  }
  EXPECT_EQ(batch.inputs[5], 0);
}

TEST(Tasks, SayWhatTheyNeed) {
  const auto mistake = [](const Settings& settings, const TokenData* data) {
    try {
      make_task(settings, {.text = data});
    } catch (const Mistake& said) {
      return std::string(said.what());
    }
    return std::string();
  };
  const TokenData few = counting(8, 0);
  EXPECT_EQ(mistake(settings_of("text"), nullptr),
            "--task text needs --data FILE, which kvick train tokens makes");
  EXPECT_EQ(mistake(settings_of("text"), &few),
            "the text has 8 tokens for training, and --ctx 8 asks for more");
  Settings crowded = settings_of("mqar");
  crowded.run.pairs = 21;
  EXPECT_EQ(mistake(crowded, nullptr),
            "--pairs 21 need --symbols of at least 42: keys are half of them");
}

}  // namespace
}  // namespace kvick::train
