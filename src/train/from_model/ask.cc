#include "train/from_model/ask.h"

#include <cmath>

#include "engine/serving/scheduler.h"
#include "train/from_model/tokenise.h"

namespace kvick::train {
namespace {

using base::fail;
using engine::JobId, engine::Token, engine::TokenReport;

class Asking {
 public:
  Asking(engine::Engine& engine, const AskOptions& options) : engine_(engine), options_(options) {}

  base::Status<> ask(std::span<const std::vector<Token>> prompts) {
    engine::SchedulerOptions batch;
    batch.max_sequences = options_.parallel;
    batch.step_seconds = 1e9;  // long steps are fine: no one waits for a first token
    KVICK_TRY(const std::unique_ptr<engine::Scheduler> scheduler,
              engine::Scheduler::make(engine_, batch));
    reports_.resize(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      engine::Job job = job_of(prompts[i], i);
      if (const auto refusal = scheduler->refuses(job))
        return fail("prompt {}: {}", i + 1, refusal->message);
      scheduler->add(JobId{i}, std::move(job));
    }
    while (scheduler->step()) {
      for (const JobId id : ended_) scheduler->cancel(id);
      ended_.clear();
    }
    if (error_) return fail("{}", error_->message);
    return base::Done{};
  }

  const std::vector<std::vector<TokenReport>>& reports() const { return reports_; }

 private:
  engine::Job job_of(const std::vector<Token>& prompt, size_t i) {
    engine::Job job;
    job.prompt = prompt;
    job.max_tokens = options_.tokens;
    job.sampling = options_.sampling;
    job.sampling.seed += i;
    job.logprobs = options_.top;
    job.prompt_logprobs = true;
    // The scheduler does not report the probability of the end, so the end token is sampled like
    // any other token and ends the answer here.
    job.ignore_end = true;
    job.on_piece = [this, i, has_ended = false](const engine::AnswerPiece& piece) mutable {
      if (has_ended) return;
      reports_[i].insert(reports_[i].end(), piece.tokens.begin(), piece.tokens.end());
      has_ended = piece.token && engine_.tokenizer().ends_generation(*piece.token);
      if (has_ended) ended_.push_back(JobId{i});
    };
    job.on_end = [this](const engine::JobOutcome& outcome) {
      if (outcome.error) error_ = outcome.error;
      if (options_.progress) options_.progress(++done_);
    };
    return job;
  }

  engine::Engine& engine_;
  const AskOptions& options_;
  std::vector<std::vector<TokenReport>> reports_;  // per prompt, in the order of its tokens
  std::vector<JobId> ended_;                       // jobs whose end token came in this step
  std::optional<engine::Refusal> error_;
  uint64_t done_ = 0;
};

void append(const TokenReport& report, AnswerData& to) {
  to.tokens.push_back(report.chosen.token);
  for (uint32_t i = 0; i < to.top; ++i) {
    const bool known = i < report.top.size();
    to.likeliest.push_back(known ? report.top[i].token : report.chosen.token);
    to.chances.push_back(known ? std::min(1.0F, std::exp(report.top[i].logprob)) : 0);
  }
}

}  // namespace

base::Result<AnswerData> ask(engine::Engine& engine, std::span<const std::vector<Token>> prompts,
                             const AskOptions& options) {
  if (prompts.empty()) return fail("there are no prompts to answer");
  const uint32_t vocab = engine.model().config().vocab;
  if (options.top == 0 || options.top > vocab)
    return fail("from 1 to {} likely tokens can be kept, not {}", vocab, options.top);
  Asking asking(engine, options);
  KVICK_TRY_VOID(asking.ask(prompts));
  AnswerData out{.vocab = vocab,
                 .vocabulary = written(engine.tokenizer().vocabulary()),
                 .top = options.top,
                 .ends = {},
                 .tokens = {},
                 .likeliest = {},
                 .chances = {}};
  for (const std::vector<TokenReport>& sequence : asking.reports()) {
    for (const TokenReport& report : sequence) append(report, out);
    if (!sequence.empty()) out.ends.push_back(out.tokens.size());
  }
  return out;
}

}  // namespace kvick::train
