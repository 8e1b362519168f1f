#pragma once
// Helpers for tests of the scheduler: jobs, a scheduler, and a record of what each job was
// answered.

#include <list>
#include <map>

#include "engine/core/test_engine.h"
#include "engine/serving/scheduler.h"
#include "engine/session/session.h"

namespace kvick::engine::test {

// The answers and the outcome of a job.
struct Heard {
  std::map<uint32_t, std::string> text;  // by choice
  std::map<uint32_t, std::vector<Token>> tokens;
  std::map<uint32_t, std::vector<float>> logprobs;  // of `tokens`
  std::map<uint32_t, Finish> finish;
  std::optional<JobOutcome> outcome;
  uint32_t pieces = 0;
};

inline Job job_of(std::vector<Token> prompt, uint32_t most) {
  Job job;
  job.prompt = std::move(prompt);
  job.max_tokens = most;
  job.sampling.temperature = 0;
  job.ignore_end = true;
  job.logprobs = 0;
  return job;
}

inline void listen(Job& job, Heard& heard) {
  job.on_piece = [&heard](AnswerPiece piece) {
    EXPECT_FALSE(heard.outcome.has_value()) << "a piece behind the end";
    EXPECT_FALSE(heard.finish.contains(piece.choice)) << "a piece behind its choice's last";
    ++heard.pieces;
    heard.text[piece.choice] += piece.text;
    for (const TokenReport& one : piece.tokens) {
      heard.tokens[piece.choice].push_back(one.chosen.token);
      heard.logprobs[piece.choice].push_back(one.chosen.logprob);
    }
    if (piece.finish) heard.finish[piece.choice] = *piece.finish;
  };
  job.on_end = [&heard](const JobOutcome& outcome) {
    EXPECT_FALSE(heard.outcome.has_value()) << "two ends";
    heard.outcome = outcome;
  };
}

// Returns what a session of its own answers for one choice of a job.
inline Answer alone(Engine& engine, const Job& job, uint32_t choice, const KvOptions& kv) {
  const auto store = std::move(engine.make_store(kv)).value();
  Session session(engine, *store);
  session.set_prompt_role(engine.prompt_role(kv));
  session.use_adapter(job.adapter);
  Request request;
  request.prompt = job.prompt;
  request.max_tokens = job.max_tokens;
  request.sampling = job.sampling;
  request.sampling.seed += choice;
  request.stop = job.stop;
  request.continues = job.continues;
  request.ignore_end = job.ignore_end;
  return std::move(session.generate(request)).value();
}

inline std::unique_ptr<Scheduler> scheduler_of(Engine& engine, const std::string& kv,
                                               uint64_t bytes = UINT64_MAX) {
  SchedulerOptions options;
  options.kv = parse_kv_options(kv, "").value();
  options.kv_bytes = bytes;
  options.headroom_tokens = 2;  // so that memory runs out
  return std::move(Scheduler::make(engine, options)).value();
}

inline void run_all(Scheduler& scheduler) {
  for (int steps = 0; scheduler.step(); ++steps) ASSERT_LT(steps, 100000) << "no end in sight";
}

// Returns job i of search_beams, without beams.
inline Job beam_job(uint64_t i) {
  Job job = job_of(std::vector<Token>(10 + i, static_cast<Token>(20 + i)), 24);
  job.logprobs.reset();
  return job;
}

struct Searched {
  std::vector<std::map<uint32_t, std::string>> texts;  // of the jobs, by choice
  uint64_t preempted = 0;
};

// Runs six jobs at once: the first, third and fifth with three beams, the others with `others`
// beams; 0: without a search.
inline Searched search_beams(Scheduler& scheduler, uint32_t others) {
  std::list<Heard> heard;
  for (uint64_t i = 0; i < 6; ++i) {
    Job job = beam_job(i);
    job.beams = i % 2 == 0 ? 3 : others;
    job.choices = i % 2 == 0 ? 2 : 1;
    listen(job, heard.emplace_back());
    scheduler.add(JobId{i}, std::move(job));
  }
  run_all(scheduler);
  Searched searched = {.texts = {}, .preempted = scheduler.metrics().recomputations};
  for (const Heard& one : heard) searched.texts.push_back(one.text);
  return searched;
}

}  // namespace kvick::engine::test
