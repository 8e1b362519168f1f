// Conversations with models that do not keep every row: which prompt tokens are computed again, and
// that an answer is the same whether its prompt was computed or cached.

#include <gtest/gtest.h>

#include "engine/core/test_mixed.h"
#include "engine/prefix/prompt_cuts.h"
#include "engine/prefix/test_conversation.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::append;
using test::Heard;
using test::job_of;
using test::listen;
using test::message_of;
using test::run_all;
using test::scheduler_of;

constexpr uint32_t kContext = 1024;

class Checkpointed : public test::ConversationTest {
 protected:
  Checkpointed() : ConversationTest(kContext) {}

  // Runs a job. Its answer must be that of a session of its own.
  Heard answer(const std::vector<Token>& prompt, uint32_t most, bool compare = true) {
    Heard heard;
    Job job = job_of(prompt, most);
    listen(job, heard);
    scheduler_->add(JobId{++last_}, job);
    run_all(*scheduler_);
    EXPECT_FALSE(heard.outcome->error.has_value()) << heard.outcome->error->message;
    if (compare) {
      EXPECT_EQ(heard.tokens[0], alone(*engine_, job, 0, {}).tokens);
    }
    return heard;
  }

  std::unique_ptr<Scheduler> scheduler_ = scheduler_of(*engine_, "paged:block=8");
};
INSTANTIATE_TEST_SUITE_P(Families, Checkpointed, testing::ValuesIn(test::families_with_states()));

TEST_P(Checkpointed, AConversationThatLosesItsThoughtsIsReadOnce) {
  std::vector<Token> history = message(40, 1);  // the system prompt
  size_t border = 0;                            // tokens before the last answer
  for (uint32_t turn = 0; turn < 6; ++turn) {
    append(history, message(20 + turn, 2 + turn));
    std::vector<Token> prompt = history;
    append(prompt, begin_);
    const Heard heard = answer(prompt, 24);
    EXPECT_EQ(heard.outcome->cached_tokens, border) << "turn " << turn;
    border = history.size();
    append_without_thoughts(history, heard.tokens.at(0));
  }
  const Metrics metrics = scheduler_->metrics();
  EXPECT_EQ(metrics.read_again_tokens, 5 * begin_.size());
  EXPECT_GE(metrics.kv.resumed, 5u);
  EXPECT_GT(metrics.kv.checkpoints, 0u);
  EXPECT_LE(metrics.kv.checkpoint_bytes, metrics.kv.cached_bytes);
}

TEST_P(Checkpointed, UsersOfOneSystemPromptReadItOnce) {
  const std::vector<Token> system = message(90, 1);
  for (uint32_t user = 0; user < 3; ++user) {
    std::vector<Token> prompt = system;
    append(prompt, message(25, 10 + user));
    append(prompt, begin_);
    EXPECT_EQ(answer(prompt, 5).outcome->cached_tokens, user == 0 ? 0 : system.size());
  }
}

TEST_P(Checkpointed, TheSecondPromptThatLeavesAnotherAtAPlaceIsFree) {
  std::vector<Token> text = message(100, 3);
  text.front() = 9;  // the prompt has no message border
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<Token> prompt(text.begin(), text.begin() + 93);
    prompt.push_back(static_cast<Token>(5 + i));
    const std::vector<Token> rest = message(12, i);
    append(prompt, std::span(rest).subspan(1));
    EXPECT_EQ(answer(prompt, 3).outcome->cached_tokens, i == 0 ? 0U : i == 1 ? 64U : 93U);
  }
}

TEST_P(Checkpointed, APromptThatIsAskedAgainReadsItsLastToken) {
  std::vector<Token> prompt = message(70, 3);
  prompt.front() = 9;
  for (uint32_t i = 0; i < 2; ++i)
    EXPECT_EQ(answer(prompt, 3).outcome->cached_tokens, i == 0 ? 0U : 69U);
}

TEST_P(Checkpointed, AnswersTheSameInLittleMemory) {
  const uint64_t bytes =
      3 * engine_->cost(parse_kv_options("paged:block=8", "").value(), {.tokens = 200})->fast_bytes;
  scheduler_ = scheduler_of(*engine_, "paged:block=8", bytes);
  uint64_t found = 0;
  for (uint32_t i = 0; i < 24; ++i) {
    std::vector<Token> prompt = message(60, 1);
    append(prompt, message(50, i / 2));
    append(prompt, message(20, i));
    append(prompt, begin_);
    found += answer(prompt, 10, i % 8 == 7).outcome->cached_tokens;
    EXPECT_LE(scheduler_->metrics().kv.allocated_bytes, bytes);
  }
  EXPECT_GT(scheduler_->metrics().kv.evicted_bytes, 0u);
  EXPECT_GE(found, 20 * 60u) << "what all prompts begin with was given up";
}

TEST_P(Checkpointed, WithoutSharedPromptsNothingIsKept) {
  scheduler_ = scheduler_of(*engine_, "paged:block=8,prefix=off");
  for (uint32_t i = 0; i < 2; ++i) answer(message(40, 1), 3, false);
  EXPECT_EQ(scheduler_->metrics().kv.cached_bytes, 0u);
}

// Rows that left a window stay until their memory is needed.
TEST(CheckpointsOfWindows, AConversationGoesOnFromItsLastTurnThoughOtherRowsWent) {
  const auto engine = mixed_engine(family_features("gemma3", 24), 2048);
  const Token turn = turn_token_of(*engine).value_or(1);
  const auto message = [&](uint32_t count, uint32_t seed) { return message_of(turn, count, seed); };
  const auto scheduler = scheduler_of(*engine, "paged:block=8", 1'000'000);
  std::vector<Token> history = message(200, 1);
  size_t border = 0;
  uint64_t last = 0;
  const auto run = [&](Job& job) {
    Heard heard;
    listen(job, heard);
    scheduler->add(JobId{++last}, job);
    run_all(*scheduler);
    return heard;
  };
  for (uint32_t i = 0; i < 4; ++i) {
    const std::vector<Token> user = message(30, 2 + i);
    history.insert(history.end(), user.begin(), user.end());
    std::vector<Token> prompt = history;
    prompt.insert(prompt.end(), {turn, 7, 8});
    Job job = job_of(prompt, 60);
    const Heard heard = run(job);
    EXPECT_EQ(heard.tokens.at(0), alone(*engine, job, 0, {}).tokens);
    EXPECT_GE(heard.outcome->cached_tokens, border);
    border = history.size();
    history.insert(history.end(), {turn, 7, 8, 55, 56, 57});
    // Other jobs take the memory.
    for (uint32_t other = 0; other < 2; ++other) {
      Job noise = job_of(message(400, 50 + 10 * i + other), 2);
      run(noise);
    }
  }
  EXPECT_GT(scheduler->metrics().kv.evicted_bytes, 0u) << "memory was not scarce";
}

}  // namespace
}  // namespace kvick::engine
