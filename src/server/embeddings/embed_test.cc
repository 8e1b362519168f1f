#include "server/embeddings/embed.h"

#include <gtest/gtest.h>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

class Embed : public testing::Test {
 protected:
  void start(size_t count) {
    TextsToEmbed texts = {.pooling = engine::Pooling::kMean, .field = "input"};
    for (size_t i = 0; i < count; ++i) texts.texts.push_back({static_cast<engine::Token>(i), 7});
    const Post inline_post = [](const std::function<void()>& task) { task(); };
    embed(service_, Threads{inline_post, inline_post, inline_post}, std::move(texts),
          std::make_shared<RecordedReply>(seen_), [this](ApiResult<Embeddings> result) {
            ++ends_;
            if (result.ok())
              embeddings_ = *std::move(result);
            else
              error_ = result.error();
          });
  }
  void end(size_t job) {
    const auto first = static_cast<float>(service_.jobs.at(job).prompt[0]);
    service_.jobs.at(job).on_end(
        {.prompt_tokens = 2, .error = {}, .embedding = {first, first + 0.5F}});
  }

  ManualService service_;
  Seen seen_;
  int ends_ = 0;
  Embeddings embeddings_;
  std::optional<ApiError> error_;
};

TEST_F(Embed, GivesTheVectorsInTheOrderOfTheTexts) {
  start(3);
  ASSERT_EQ(service_.jobs.size(), 3u);
  EXPECT_EQ(service_.jobs[1].prompt, (std::vector<engine::Token>{1, 7}));
  EXPECT_EQ(service_.jobs[1].pooling, engine::Pooling::kMean);
  for (const size_t job : {2, 0}) end(job);
  EXPECT_EQ(ends_, 0);
  end(1);
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(embeddings_.vectors,
            (std::vector<std::vector<float>>{{0, 0.5F}, {1, 1.5F}, {2, 2.5F}}));
  EXPECT_EQ(embeddings_.tokens, 6u);
}

TEST_F(Embed, LeavesRoomInTheQueueForOthers) {
  const size_t count = kMostTextsAtOnce + 2;
  start(count);
  EXPECT_EQ(service_.jobs.size(), kMostTextsAtOnce);
  end(5);
  ASSERT_EQ(service_.jobs.size(), kMostTextsAtOnce + 1);
  for (size_t job = 0; job < count; ++job)
    if (job != 5) end(job);
  ASSERT_EQ(ends_, 1);
  ASSERT_EQ(embeddings_.vectors.size(), count);
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(embeddings_.vectors[i][0], static_cast<float>(i));
}

TEST_F(Embed, EndsAllWhereOneIsNotTaken) {
  service_.refuse_from = 2;
  service_.refusal = {
      .why = engine::Refusal::Why::kTooLong, .message = "too long", .field = "prompt"};
  start(5);
  ASSERT_EQ(service_.jobs.size(), 2u);
  EXPECT_EQ(service_.cancelled, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(ends_, 0);
  for (const size_t job : {0, 1}) service_.jobs[job].on_end({.prompt_tokens = 2});
  EXPECT_EQ(ends_, 1);
  ASSERT_TRUE(error_.has_value());
  EXPECT_EQ(error_->status, 400u);
  EXPECT_EQ(error_->message, "too long");
  EXPECT_EQ(error_->param, "input");
  EXPECT_EQ(error_->code, "context_length_exceeded");
}

TEST_F(Embed, SubmitsATextAgainThatAFullQueueRefusedWhileOthersRun) {
  service_.refuse_from = 2;
  service_.refusal = {.why = engine::Refusal::Why::kBusy, .message = "full", .field = ""};
  start(4);
  ASSERT_EQ(service_.jobs.size(), 2u);
  end(0);  // the queue is still full
  ASSERT_EQ(service_.jobs.size(), 2u);
  service_.refuse_from = SIZE_MAX;
  end(1);
  ASSERT_EQ(service_.jobs.size(), 4u);
  EXPECT_EQ(service_.jobs[2].prompt[0], 2);
  for (const size_t job : {3, 2}) end(job);
  EXPECT_EQ(ends_, 1);
  ASSERT_EQ(embeddings_.vectors.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(embeddings_.vectors[i][0], static_cast<float>(i));
}

TEST_F(Embed, IsRefusedWhereTheQueueIsFullOfOthers) {
  service_.refuse_from = 2;
  service_.refusal = {.why = engine::Refusal::Why::kBusy, .message = "full", .field = ""};
  start(4);
  for (const size_t job : {0, 1}) end(job);
  EXPECT_EQ(ends_, 1);
  ASSERT_TRUE(error_.has_value());
  EXPECT_EQ(error_->status, 503u);
  EXPECT_EQ(error_->message, "full");
}

TEST_F(Embed, SaysWhatAJobCouldNotGoOnFor) {
  start(2);
  end(0);
  service_.jobs[1].on_end(
      {.error = engine::Refusal{engine::Refusal::Why::kFailed, "the engine failed", ""}});
  ASSERT_TRUE(error_.has_value());
  EXPECT_EQ(error_->status, 500u);
  EXPECT_EQ(error_->message, "the engine failed");
}

TEST_F(Embed, CancelsTheOtherJobsWhenOneFails) {
  start(kMostTextsAtOnce + 1);
  service_.jobs[1].on_end(
      {.error = engine::Refusal{engine::Refusal::Why::kFailed, "the engine failed", ""}});
  EXPECT_EQ(service_.jobs.size(), kMostTextsAtOnce) << "another text was submitted";
  EXPECT_EQ(service_.cancelled.size(), kMostTextsAtOnce);
  EXPECT_EQ(ends_, 0);
  for (size_t job = 0; job < service_.jobs.size(); ++job)
    if (job != 1) service_.jobs[job].on_end({});
  EXPECT_EQ(ends_, 1);
  ASSERT_TRUE(error_.has_value());
  EXPECT_EQ(error_->message, "the engine failed");
}

// When the service ends, it cancels running jobs like this.
TEST_F(Embed, SaysThatAJobWasCancelled) {
  start(2);
  end(0);
  service_.jobs[1].on_end({});
  ASSERT_TRUE(error_.has_value());
  EXPECT_EQ(error_->status, 503u);
}

TEST_F(Embed, CancelsTheJobsOfAClientThatHasGone) {
  start(kMostTextsAtOnce + 1);
  ASSERT_TRUE(seen_.gone);
  end(3);
  ASSERT_EQ(service_.jobs.size(), kMostTextsAtOnce + 1);
  seen_.gone();
  EXPECT_EQ(service_.cancelled.size(), kMostTextsAtOnce + 1);
  for (size_t job = 0; job < service_.jobs.size(); ++job)
    if (job != 3) service_.jobs[job].on_end({});
  EXPECT_EQ(ends_, 0);
}

}  // namespace
}  // namespace kvick::server
