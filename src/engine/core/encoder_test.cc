// Encoders read each text in one step and keep no rows.

#include <gtest/gtest.h>
#include <list>

#include "make_model/families.h"

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

std::unique_ptr<Engine> encoder(const char* family = "bert") {
  tools::Spec spec = *tools::made_family(family);
  spec.vocab = 512, spec.context = 256;
  return engine_of(spec);
}

std::unique_ptr<Scheduler> scheduler_of(Engine& engine, uint32_t step_tokens, uint64_t bytes) {
  SchedulerOptions options;
  options.most_step_tokens = step_tokens;
  options.kv_bytes = bytes;
  return std::move(Scheduler::make(engine, options)).value();
}

Job text_of(uint32_t tokens, Pooling kind = Pooling::kMean) {
  Job job;
  for (uint32_t t = 0; t < tokens; ++t)
    job.prompt.push_back(static_cast<Token>(5 + (t * 7 + tokens * 31) % 400));
  job.pooling = kind;
  return job;
}

std::vector<float> alone(Engine& engine, const Job& text) {
  const auto scheduler = scheduler_of(engine, 512, 0);
  Heard heard;
  Job job = text;
  listen(job, heard);
  scheduler->add(JobId{1}, std::move(job));
  run_all(*scheduler);
  return heard.outcome->embedding;
}

// Without any cache memory, and with limits on a step that are shorter than the texts.
TEST(EncoderJobs, ReadEachTextInOneStepWhateverItsLengthAndWhateverIsReadBeside) {
  for (const char* family : {"bert", "modern-bert"}) {
    const auto engine = encoder(family);
    for (const uint32_t step_tokens : {4U, 64U, 512U}) {
      const auto scheduler = scheduler_of(*engine, step_tokens, 0);
      std::list<Heard> heard;
      std::vector<Job> texts;
      for (const uint32_t tokens : {1, 256, 20, 30, 90}) texts.push_back(text_of(tokens));
      for (const Job& text : texts) {
        Job job = text;
        listen(job, heard.emplace_back());
        EXPECT_FALSE(scheduler->refuses(job).has_value());
        scheduler->add(JobId{heard.size()}, std::move(job));
      }
      run_all(*scheduler);
      auto answer = heard.begin();
      for (const Job& text : texts) {
        EXPECT_EQ(answer->outcome->embedding, alone(*engine, text)) << step_tokens;
        EXPECT_EQ(answer++->outcome->cached_tokens, 0U);
      }
      EXPECT_EQ(scheduler->metrics().kv.allocated_bytes, 0U);
    }
  }
}

TEST(EncoderJobs, ScoreAPairByItsTwoTexts) {
  const auto engine = encoder("bert-rank");
  Job one = text_of(20, Pooling::kRank), other = one;
  other.second_text = 8;
  const std::vector<float> as_one = alone(*engine, one), as_two = alone(*engine, other);
  ASSERT_EQ(as_one.size(), 1U);
  EXPECT_TRUE(as_one[0] > 0 && as_one[0] < 1);
  EXPECT_NE(as_one, as_two);  // their token types differ
}

TEST(EncoderJobs, AreRefusedIfTheyAskForText) {
  const auto engine = encoder();
  const auto scheduler = scheduler_of(*engine, 512, 0);
  const auto refusal = scheduler->refuses(job_of(text_of(4).prompt, 3));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_NE(refusal->message.find("reads texts and writes none"), std::string::npos);
  const auto store = std::move(engine->make_store({})).value();
  Session session(*engine, *store);
  EXPECT_FALSE(session.generate({.prompt = text_of(4).prompt}).ok());
}

TEST(EncoderJobs, AreRefusedIfTheTextIsLongerThanTheContext) {
  const auto engine = encoder();
  const auto scheduler = scheduler_of(*engine, 512, 0);
  const auto refusal = scheduler->refuses(text_of(257));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->why, Refusal::Why::kTooLong);
  EXPECT_FALSE(scheduler->refuses(text_of(256)).has_value());
}

TEST(EncoderJobs, ScoreNothingWithoutAHead) {
  const auto engine = encoder();
  const auto refusal = scheduler_of(*engine, 512, 0)->refuses(text_of(4, Pooling::kRank));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_NE(refusal->message.find("rank head"), std::string::npos);
}

TEST(EncoderStore, HasNoRowsForAPolicyToChooseAmong) {
  const auto engine = encoder();
  const auto store = engine->make_store(parse_kv_options("", "", "", "quest").value());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("no layer of this model keeps them"), std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
