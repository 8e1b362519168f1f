// Scheduler: one step of all the sequences of a store.

#include <algorithm>
#include <limits>

#include "engine/answer/finite.h"
#include "engine/serving/scheduler.h"
#include "engine/speculation/verify.h"

namespace kvick::engine {
namespace {

// Limit on the tokens per step of a prompt whose tokens are reported: each needs logits of its own,
// 200 KB for SmolLM2.
constexpr uint32_t kMostReports = 64;

// Returns what the call throws, or null.
template <typename Call>
std::exception_ptr thrown_by(const Call& call) noexcept {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// Makes a call for a job. An exception ends the job after the step.
template <typename Call>
void attempt(RunningJob& running, const Call& call) noexcept {
  if (std::exception_ptr failure = thrown_by(call)) running.failure = std::move(failure);
}

uint32_t longest_piece(std::span<const StepWork> work) {
  uint32_t most = 0;
  for (const StepWork& one : work) most = std::max(most, one.tokens);
  return most;
}

// Whether a shorter piece of a prompt takes less memory: windows and policies that forget keep all
// rows of a step until it ends.
bool gives_rows_back(const StoreKind& kind) {
  const auto gives = [](const kv::Shape& shape) { return shape.window > 0; };
  return kind.traits.forgets || std::ranges::any_of(kind.store->info().groups, gives);
}

// Returns the part of an answer's text that no other answer of the job adds. The first choice adds
// the prompt too; the others begin with as many of its last tokens as a match looks at.
std::span<const Token> new_text(const RunningJob& running, const AnswerSequence& answer) {
  const uint32_t prompt = running.outcome.prompt_tokens;
  const uint32_t known = prompt - std::min(prompt, MatchIndex::kMostLength);
  return std::span(answer.tokens).subspan(answer.choice == 0 ? 0 : known);
}

}  // namespace

// Plans the next token of every answer that lacks only that one. Beams are compared with each
// other, so they go together: none is planned before all of them lack one token only.
void Scheduler::plan_answers(RunningJob& running, std::vector<StepWork>& work) const {
  const bool together =
      std::all_of(running.answers.begin(), running.answers.end(),
                  [](const AnswerSequence& answer) { return answer.pending() == 1; });
  for (size_t i = 0; i < running.answers.size(); ++i)
    if (running.answers[i].pending() == 1 && (together || !running.beam_search()))
      work.push_back({&running, i, 1, true});
}

void Scheduler::plan_prompt(RunningJob& running, uint32_t& left,
                            std::vector<StepWork>& work) const {
  if (engine_.model().config().both_ways()) return plan_text(running, left, work);
  for (size_t i = 0; i < running.answers.size() && left > 0; ++i) {
    AnswerSequence& answer = running.answers[i];
    const bool trunk = running.trunk > 0;
    if (trunk && i > 0) return;
    uint32_t pending = trunk ? running.trunk - answer.committed : answer.pending();
    if (!trunk && answer.pending() == 1 && answer.length() > running.outcome.prompt_tokens)
      continue;
    // Leaves the last token of each beam to plan_answers(), so that all beams go together.
    if (running.beam_search() && running.answers.size() > 1 && !trunk) --pending;
    uint32_t n = std::min({pending, left, running.reports_prompt() ? kMostReports : UINT32_MAX});
    // A piece has tokens of one role. With a policy, tokens of an answer are computed again one at
    // a time, so that it chooses rows for each as it did at first.
    if (answer.committed < running.prompt_rows())
      n = std::min(n, running.prompt_rows() - answer.committed);
    else if (!reads_all(running.kind->options))
      n = std::min(n, 1U);
    n = std::min({n, running.until_cut(answer), running.until_move(answer)});
    if (n == 0) continue;
    left -= n;
    work.push_back({&running, i, n, !running.pool && answer.committed + n == answer.length()});
  }
}

// most_prompt: limit on the prompt tokens.
std::vector<StepWork> Scheduler::plan(const StoreKind& kind, uint32_t most_prompt) const {
  std::vector<StepWork> work;
  for (const auto& running : running_)
    if (running->kind == &kind && running->trunk == 0 && running->loading == nullptr &&
        running->longest() > running->outcome.prompt_tokens)
      plan_answers(*running, work);
  uint32_t left = std::min(
      most_prompt, pace_.prompt_tokens(static_cast<uint32_t>(work.size()), waiting_tokens()));
  for (const auto& running : running_)
    if (running->kind == &kind && running->loading == nullptr) plan_prompt(*running, left, work);
  return work;
}

bool Scheduler::run(StoreKind& kind) {
  // When memory runs out, the step first goes without draft tokens. A job counts as too large only
  // if the step fails once more after other instances were found to have nothing to give.
  bool alone = false;
  uint32_t most_prompt = UINT32_MAX;
  for (bool drafts = true;; drafts = false) {
    end_lost(lost_jobs(kind));
    std::vector<StepWork> work = plan(kind, most_prompt);
    if (work.empty()) return false;
    if (drafts) propose(work);
    if (kind.broken) return true;
    make_room(kind, work);
    const auto lost = [&] {
      base::CrashNotes::Step noted(noted_);
      for (const StepWork& one : work) noted.add(one.running->job.request.c_str());
      return compute_all(kind, work);
    }();
    if (lost.ok()) {
      settle(work, *lost);
      end_lost(lost_jobs(kind));  // looked up again, since settle() may have ended some of them
      return true;
    }
    const bool drafted = std::any_of(work.begin(), work.end(),
                                     [](const StepWork& one) { return one.drafts.size() > 0; });
    if (drafted || !lost_jobs(kind).empty()) continue;
    if (wait_for_others(*running_.front(), lost.error().needed_bytes)) return false;
    const uint32_t piece = longest_piece(work);
    most_prompt = piece > 1 && gives_rows_back(kind) ? piece / 2 : UINT32_MAX;
    if (most_prompt != UINT32_MAX || make_way(kind, lost.error())) continue;
    if (std::exchange(alone, true) || options_.memory == nullptr)
      end(*work.front().running, refusal_of(lost.error()));
  }
}

// Returns the jobs that lost rows to a failed tier or to a commit that ran out of memory.
std::vector<RunningJob*> Scheduler::lost_jobs(const StoreKind& kind) const {
  std::vector<RunningJob*> lost;
  for (const auto& running : running_) {
    const bool any =
        running->kind == &kind &&
        std::any_of(running->answers.begin(), running->answers.end(),
                    [&](const AnswerSequence& answer) {
                      return answer.seq && !kv::failure(*kind.store, *answer.seq).empty();
                    });
    if (any) lost.push_back(running.get());
  }
  return lost;
}

void Scheduler::end_lost(std::span<RunningJob* const> lost) {
  for (RunningJob* const running : lost) {
    std::string why;
    bool by_tier = false;
    for (const AnswerSequence& answer : running->answers) {
      if (!answer.seq || !why.empty()) continue;
      why = kv::failure(*running->kind->store, *answer.seq);
      by_tier = !why.empty() && !kv::ran_out_of_memory(*running->kind->store, *answer.seq);
    }
    end(*running, Refusal{by_tier ? Refusal::Why::kLost : Refusal::Why::kFailed,
                          "the request's rows are lost: " + why, ""});
  }
}

// Computes and commits a step. Returns the jobs that lost rows in it, of which nothing is kept.
base::Result<std::vector<RunningJob*>, kv::Shortage> Scheduler::compute_all(
    StoreKind& kind, std::vector<StepWork>& work) {
  std::vector<FreshTokens> fresh;
  std::vector<model::Slot> slots;
  for (const StepWork& one : work) one.running->in_step = true;
  fresh.reserve(work.size());
  for (const StepWork& one : work) {
    const AnswerSequence& answer = one.running->answers[one.answer];
    const bool prompt = one.running->reads_prompt(answer);
    model::Slot slot = {.seq = *answer.seq,
                        .past = answer.committed,
                        .tokens = std::span(answer.tokens).subspan(answer.committed, one.tokens),
                        .parents = {},
                        .role = prompt ? kind.prompt_role : model::Role::kAnswer,
                        .prompt = prompt,
                        .reusable = prompt || !kind.tells_roles(),
                        .adapter = one.running->job.adapter.weights(),
                        .adapter_scale = one.running->job.adapter.scale,
                        .second_text = one.running->job.second_text};
    if (one.drafts.size() > 0) {
      const FreshTokens& rows = fresh.emplace_back(slot.tokens.back(), one.drafts.tree);
      slot.tokens = rows.tokens;
      slot.parents = rows.parents;
    }
    slots.push_back(slot);
  }
  const double began = options_.clock();
  KVICK_TRY(model::Executor::Step step, kind.change([&](kv::Store& store) {
    return executor_.begin(store, {.slots = slots});
  }));
  step.want_states(states_of(work));
  step.forward(wanted_by(work));
  verify_drafts(work);
  kv::Kept kept = step.all();
  for (size_t i = 0; i < work.size(); ++i)
    if (work[i].drafts.size() > 0) kept.rows[i] = work[i].kept;
  std::vector<RunningJob*> lost = lost_jobs(kind);
  kind.change([&](kv::Store&) { step.commit(kept); });
  count_step(work, began);
  return lost;
}

// Returns the tokens of the step whose logits are needed, as indices in the batch. Sets
// first_logits and reports of each work.
std::vector<uint32_t> Scheduler::wanted_by(std::span<StepWork> work) {
  std::vector<uint32_t> wanted;
  uint32_t end = 0;
  size_t copies = 0;
  for (StepWork& one : work) {
    const AnswerSequence& answer = one.running->answers[one.answer];
    if (one.answer == 0 && one.running->reports_prompt()) {
      const uint32_t known = static_cast<uint32_t>(one.running->prompt_reports.size());
      const uint32_t last =
          std::min(answer.committed + one.tokens, one.running->outcome.prompt_tokens - 1);
      for (uint32_t row = std::max(known, 1u) - 1; row < last; ++row, ++one.reports)
        wanted.push_back(end + row - answer.committed);
    }
    end += one.tokens;
    one.first_logits = wanted.size();
    for (uint32_t i = 0; one.logits && i <= one.drafts.size(); ++i) wanted.push_back(end - 1 + i);
    end += one.drafts.size();
    if (one.logits && one.running->trunk > 0) copies += one.running->answers.size() - 1;
  }
  // Answers that are forked in this step get copies of the logits, since samplers change them.
  fork_logits_.resize(copies * engine_.model().config().vocab);
  return wanted;
}

// Forks the other answers from the first one. Returns false if there is no room: then the job was
// preempted or has ended.
bool Scheduler::fork_answers(RunningJob& running) {
  AnswerSequence& first = running.answers.front();
  for (AnswerSequence& answer : std::span(running.answers).subspan(1)) {
    auto seq = fork(*running.kind, *first.seq);
    if (!seq.ok()) {
      preempt_or_end(running, seq.error());
      return false;
    }
    answer.seq = *seq;
    answer.committed = first.committed;
    answer.filed = first.filed;
  }
  running.trunk = 0;
  return true;
}

// Hands the results of a step to its jobs. lost: jobs without anything committed, which will end.
void Scheduler::settle(std::span<StepWork> work, std::span<RunningJob* const> lost) {
  const auto ends = [&](const StepWork& one) {
    return one.running->failure || std::find(lost.begin(), lost.end(), one.running) != lost.end();
  };
  const size_t vocab = engine_.model().config().vocab;
  std::vector<StepDraw> draws;
  size_t copies = 0;  // rows of fork_logits_ that are taken
  for (const StepWork& one : work) {
    if (one.failure) one.running->failure = one.failure;
    if (!ends(one)) attempt(*one.running, [&] { take_rows(one); });
  }
  for (StepWork& one : work) {
    RunningJob& running = *one.running;
    const bool forks = running.forks_now();
    const size_t others = running.answers.size() - 1, first_copy = copies;
    if (one.logits && running.trunk > 0) copies += others;
    if (ends(one)) continue;
    bool goes_on = true;
    if (forks) attempt(running, [&] { goes_on = fork_answers(running); });
    if (!goes_on || running.failure || !one.logits) continue;
    const auto logits = executor_.logits().subspan(one.first_logits * vocab, vocab);
    draws.push_back({&running, one.answer, logits, std::move(one.written)});
    if (!forks) continue;
    for (size_t i = 0; i < others; ++i) {
      const auto copy = std::span(fork_logits_).subspan((first_copy + i) * vocab, vocab);
      std::ranges::copy(logits, copy.begin());
      draws.push_back({&running, i + 1, copy, {}});
    }
  }
  // Brings the answers of each job together: some were planned as answers, others as prompts.
  std::ranges::stable_sort(draws, [](const StepDraw& a, const StepDraw& b) {
    return a.running->rank().ahead_of(b.running->rank());
  });
  draw(draws);
  fail_marked();
  end_pooled();
}

// Takes what the step has committed of an answer.
void Scheduler::take_rows(const StepWork& one) {
  report_prompt(one);
  pool_states(one, executor_.states(), engine_.model());
  AnswerSequence& answer = one.running->answers[one.answer];
  const uint32_t before = answer.committed;
  answer.committed += one.drafts.size() > 0 ? static_cast<uint32_t>(one.kept.size()) : one.tokens;
  if (const auto failed = show_states(one, before, executor_)) report(failed);
  one.running->keep_checkpoints(answer, before);
  keep_rows(one);
  if (one.answer == 0) take_moves(*one.running);
}

// Adds the reports of the prompt tokens that the step has computed. Once all are there, sends them
// to every choice.
void Scheduler::report_prompt(const StepWork& work) {
  RunningJob& running = *work.running;
  if (work.answer != 0 || !running.reports_prompt()) return;
  std::vector<TokenReport>& reports = running.prompt_reports;
  const std::vector<Token>& prompt = running.job.prompt;
  if (reports.empty())
    reports.push_back({.chosen = {prompt[0], std::numeric_limits<float>::quiet_NaN()}, .top = {}});
  const size_t vocab = engine_.model().config().vocab;
  const size_t pieces = engine_.tokenizer().vocabulary().pieces.size();
  for (size_t row = work.first_logits - work.reports; row < work.first_logits; ++row) {
    const auto logits = executor_.logits().subspan(row * vocab, pieces);
    require_finite(logits);
    reports.push_back(report_of(logits, prompt[reports.size()], *running.job.logprobs));
  }
  if (running.reports_prompt() || !running.job.on_piece) return;
  for (uint32_t choice = 0; choice < running.job.choices; ++choice)
    running.job.on_piece(
        {.choice = choice, .text = {}, .tokens = reports, .of_prompt = true, .finish = {}});
}

void Scheduler::draw(std::vector<StepDraw>& draws) {
  const auto choose = [](StepDraw& one) {
    AnswerSequence& answer = one.running->answers[one.answer];
    const uint32_t most = one.running->kind->most_tokens;
    one.written.push_back(answer.writer->next(one.logits, answer.committed < most));
    if (one.written.back().token) answer.tokens.push_back(*one.written.back().token);
  };
  engine_.pool().parallel_for(draws.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (StepDraw& one : std::span(draws).subspan(begin, end - begin))
      if (!one.running->beam_search() && one.written.empty())
        one.failure = thrown_by([&] { choose(one); });
  });
  const double now = options_.clock();
  for (size_t i = 0; i < draws.size();) {
    RunningJob& running = *draws[i].running;
    size_t end = i;
    while (end < draws.size() && draws[end].running == &running) ++end;
    (running.last_token ? counts_.between_tokens : counts_.first_token)
        .add(now - running.last_token.value_or(running.arrived));
    if (!running.last_token) running.outcome.times.first_token = now;
    running.last_token = now;
    running.state = JobState::kAnswer;
    const auto own = std::span(draws).subspan(i, end - i);
    for (const StepDraw& one : own)
      if (one.failure) running.failure = one.failure;
    i = end;
    if (running.failure) continue;
    try {  // not attempt(): the job may have been ended and deleted
      running.beam_search() ? search(running, own) : take(running, own);
    } catch (...) {
      fail(running, std::current_exception());
    }
  }
}

void Scheduler::take(RunningJob& running, std::span<StepDraw> draws) {
  std::vector<size_t> ended;
  for (StepDraw& one : draws) {
    AnswerSequence& answer = running.answers[one.answer];
    for (WrittenTokens& written : one.written) {
      running.outcome.generated_tokens += written.token ? 1 : 0;
      counts_.generated_tokens += written.token ? 1 : 0;
      AnswerPiece piece = {.choice = answer.choice,
                           .text = std::move(written.text),
                           .token = written.token,
                           .tokens = {},
                           .finish = written.finish,
                           .stop = std::move(written.stop)};
      if (written.report) piece.tokens.push_back(std::move(*written.report));
      if (running.job.on_piece) running.job.on_piece(std::move(piece));
      if (written.finish) ended.push_back(one.answer);
    }
    if (!ended.empty() && ended.back() == one.answer && answer.speculator != nullptr &&
        running.job.salt.empty())
      speculation_.add_text(new_text(running, answer));
  }
  std::ranges::sort(ended);  // draws come in the order of the step's work
  for (auto at = ended.rbegin(); at != ended.rend(); ++at) {
    if (running.job.choices == 1) keep_state(running, running.answers[*at]);
    remember(running, running.answers[*at]);
    close_answer(running, running.answers[*at]);
    running.answers.erase(running.answers.begin() + static_cast<ptrdiff_t>(*at));
  }
  if (!running.answers.empty()) return;
  ++counts_.finished;
  end(running, {});
}

}  // namespace kvick::engine
