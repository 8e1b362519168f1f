#include "engine/eval/answer_prompts.h"

#include <algorithm>
#include <optional>

#include "engine/serving/scheduler.h"
#include "engine/session/session.h"

namespace kvick::engine {
namespace {

using base::fail;

AdapterUse adapter_of(const AnswerOptions& options, size_t prompt) {
  if (options.adapters.empty()) return {};
  return options.adapters[prompt % options.adapters.size()];
}

base::Result<Answered> one_by_one(Engine& engine, std::span<const std::vector<Token>> prompts,
                                  const AnswerOptions& options) {
  KVICK_TRY(const std::unique_ptr<kv::Store> store, engine.make_store(options.kv));
  Session session(engine, *store, options.clock);
  session.set_prompt_role(engine.prompt_role(options.kv));
  KVICK_TRY_VOID(session.speculate(options.spec));
  Answered all;
  for (const std::vector<Token>& prompt : prompts) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = options.tokens;
    request.sampling.temperature = 0;
    request.ignore_end = options.ignore_end;
    session.use_adapter(adapter_of(options, all.answers.size()));
    KVICK_TRY(Answer answer, session.generate(request));
    // The first token comes from the prompt's forward; the model's end token counts as written.
    const uint64_t written = answer.tokens.size() + (answer.finish == Finish::kEnd ? 1 : 0) - 1;
    all.seconds += answer.decode_s;
    all.tokens += written;
    all.written += written;
    all.drafted += answer.drafted;
    all.accepted += answer.accepted;
    all.answers.push_back(std::move(answer.tokens));
    if (options.progress) options.progress(all.answers.size());
  }
  return all;
}

// Answers some prompts at once.
class Wave {
 public:
  Wave(Scheduler& scheduler, const AnswerOptions& options, Answered& all)
      : scheduler_(scheduler), options_(options), all_(all) {}

  base::Status<> answer(std::span<const std::vector<Token>> prompts) {
    const size_t first = all_.answers.size();
    all_.answers.resize(first + prompts.size());
    unread_ = prompts.size();
    for (size_t i = 0; i < prompts.size(); ++i) {
      Job job = job_of(prompts[i], all_.answers[first + i]);
      job.adapter = adapter_of(options_, first + i);
      if (const auto refusal = scheduler_.refuses(job)) return fail("{}", refusal->message);
      scheduler_.add(JobId{first + i}, std::move(job));
    }
    while (step()) {
    }
    if (error_) return fail("{}", error_->message);
    return base::Done{};
  }

 private:
  Job job_of(const std::vector<Token>& prompt, std::vector<Token>& answer) {
    Job job;
    job.prompt = prompt;
    job.max_tokens = options_.tokens;
    job.sampling.temperature = 0;
    job.ignore_end = options_.ignore_end;
    job.on_piece = [this, &answer, begun = false](const AnswerPiece& piece) mutable {
      if (piece.token) answer.push_back(*piece.token);
      ++tokens_;
      if (begun)
        ++all_.written;
      else
        --unread_;
      begun = true;
    };
    job.on_end = [this](const JobOutcome& outcome) {
      if (outcome.error) error_ = outcome.error;
      all_.drafted += outcome.drafted;
      all_.accepted += outcome.accepted;
    };
    return job;
  }

  bool step() {
    const bool reads = unread_ > 0;
    tokens_ = 0;
    const double start = options_.clock();
    const bool more = scheduler_.step();
    if (reads) return more;
    all_.seconds += options_.clock() - start;
    all_.tokens += tokens_;
    return more;
  }

  Scheduler& scheduler_;
  const AnswerOptions& options_;
  Answered& all_;
  size_t unread_ = 0;    // prompts that have no answer token yet
  uint64_t tokens_ = 0;  // tokens written in the current step
  std::optional<Refusal> error_;
};

base::Result<Answered> together(Engine& engine, std::span<const std::vector<Token>> prompts,
                                const AnswerOptions& options) {
  SchedulerOptions batch;
  batch.kv = options.kv;
  batch.spec = options.spec;
  batch.max_sequences = options.parallel;
  batch.clock = options.clock;
  // No limit on a step's time: prompts are read at full speed, so that answers begin together.
  batch.step_seconds = 1e9;
  KVICK_TRY(const std::unique_ptr<Scheduler> scheduler, Scheduler::make(engine, batch));
  Answered all;
  all.answers.reserve(prompts.size());  // jobs hold references into it
  while (!prompts.empty()) {
    const auto some = prompts.first(std::min<size_t>(options.parallel, prompts.size()));
    KVICK_TRY_VOID(Wave(*scheduler, options, all).answer(some));
    prompts = prompts.subspan(some.size());
    if (options.progress) options.progress(all.answers.size());
  }
  return all;
}

}  // namespace

double Answered::tokens_per_pass() const {
  return static_cast<double>(written) /
         static_cast<double>(std::max<uint64_t>(1, written - accepted));
}

base::Result<Answered> answer_prompts(Engine& engine, std::span<const std::vector<Token>> prompts,
                                      const AnswerOptions& options) {
  if (prompts.empty()) return fail("there are no prompts to answer");
  if (options.parallel == 0) return fail("0 prompts at once: at least 1 is needed");
  return options.parallel == 1 ? one_by_one(engine, prompts, options)
                               : together(engine, prompts, options);
}

}  // namespace kvick::engine
