#include "server/api/generation.h"

#include "server/net/persist.h"
#include "server/request/job_error.h"

namespace kvick::server {

// A stream's text is sent once this many bytes have accumulated.
constexpr size_t kMostAtOnce = 64 << 10;

ApiError Generation::error_of(const engine::Refusal& refusal) const {
  return job_error(refusal, std::string(format_->prompt_field()));
}

Generation::Generation(engine::Service& service, const Threads& threads,
                       std::unique_ptr<AnswerFormat> format, std::shared_ptr<Reply> reply,
                       std::function<double()> clock)
    : service_(service),
      network_(threads.network),
      answers_(threads.answers),
      clock_(std::move(clock)),
      began_(clock_()),
      format_(std::move(format)),
      record_(reply->record()),
      reply_(std::move(reply)) {}

void Generation::watch(Reply& reply) {
  reply.on_gone([self = weak_from_this()] {
    if (const auto generation = self.lock()) generation->leave();
  });
}

// Cancels the jobs at once, even if all answers threads are busy.
void Generation::leave() {
  std::vector<engine::JobId> ids;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    ids = ids_;
  }
  for (const engine::JobId id : ids) service_.cancel(id);
}

// Moves the jobs out of the plan and sets their callbacks.
std::shared_ptr<const Plan> Generation::prepare(Plan plan, std::vector<engine::Job>& jobs) {
  jobs = std::move(plan.jobs);
  plan.jobs.clear();
  const std::string request = record_ != nullptr ? record_->facts().id : "";
  note([&](RequestFacts& facts) {
    facts.priority = jobs.front().priority;
    for (const engine::Job& job : jobs) facts.planned_tokens += job.prompt.size();
  });
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].request = request;
    jobs[i].on_piece = [self = shared_from_this(), i](engine::AnswerPiece piece) {
      self->post(JobPiece{i, std::move(piece)});
    };
    jobs[i].on_end = [self = shared_from_this(), i](const engine::JobOutcome& outcome) {
      self->post(JobEnd{i, outcome});
    };
  }
  return std::make_shared<const Plan>(std::move(plan));
}

void Generation::submit(Plan plan) {
  lease_ = plan.lease;
  std::vector<engine::Job> jobs;
  const std::shared_ptr<const Plan> kept = prepare(std::move(plan), jobs);
  std::vector<engine::JobId> ids;
  ids.reserve(jobs.size());
  try {
    submit_all(jobs, kept, ids);
  } catch (...) {
    for (const engine::JobId id : ids) try_until_done([&] { service_.cancel(id); });
    throw;
  }
}

void Generation::submit_all(std::vector<engine::Job>& jobs, const std::shared_ptr<const Plan>& plan,
                            std::vector<engine::JobId>& ids) {
  size_t reporting = 0;
  for (engine::Job& job : jobs) {
    reporting += job.prompt_logprobs ? 1 : 0;
    auto submitted = service_.submit(std::move(job));
    if (submitted.ok()) {
      ids.push_back(*submitted);
      continue;
    }
    for (const engine::JobId id : ids) service_.cancel(id);
    return post(submitted.error());
  }
  post(Started{plan, ids, reporting});
}

// ---- the inbox ----

void Generation::post(Event event) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(event));
    if (std::exchange(working_, true)) return;
  }
  call_worker();
}

void Generation::call_worker() {
  if (try_until_done([&] { answers_([self = shared_from_this()] { self->work(); }); })) return;
  const std::lock_guard lock(mutex_);
  working_ = false;  // the next event asks again
}

std::vector<Generation::Event> Generation::take_events() {
  gone_ = has_left();
  const std::lock_guard lock(mutex_);
  return std::exchange(inbox_, {});
}

bool Generation::has_left() {
  const std::lock_guard lock(mutex_);
  return gone_ || left_;
}

bool Generation::has_more() {
  const std::lock_guard lock(mutex_);
  return working_ = !inbox_.empty() || writing_body_;
}

// Runs one turn: handles the events in the inbox and writes at most one choice of a whole answer.
// Then other requests get the thread. A stream's text is sent every kMostAtOnce bytes, not only at
// the end of the turn. Otherwise the network would notice a client that does not read only after a
// long turn, while the inbox grows and makes the next turn longer still. The reports of a prompt go
// to all choices at once, so they are sent at once: StreamHead::long_events counts one event per
// prompt that may be longer than a client may leave unread.
void Generation::work() noexcept {
  try {
    for (Event& event : take_events()) {
      std::visit([&](auto& one) { on(std::move(one)); }, event);
      if (events_.size() < kMostAtOnce || reports_follow_) continue;
      flush();
      gone_ = has_left();
    }
    if (gone_) writing_body_ = false;
    if (writing_body_) write_choice();
    if (!reports_follow_) flush();
  } catch (const std::exception&) {
    fail();
  }
  if (has_more()) call_worker();
}

// Ends the request after an exception in work().
void Generation::fail() {
  try_until_done([&] { cancel(); });
  reply_.reset();  // the destructor of the reply answers
}

// ---- events ----

void Generation::on(const engine::Refusal& refusal) {
  early_.clear();
  gone_ = true;
  const ApiError error = error_of(refusal);
  // The message of kInvalid quotes a value of the request.
  const bool own_words = refusal.why != engine::Refusal::Why::kInvalid;
  note([&](RequestFacts& facts) { facts.fail(error, own_words); });
  send(format_->error(error));
}

void Generation::on(Started started) {
  note([&](RequestFacts& facts) { facts.jobs = started.ids; });
  {
    const std::lock_guard lock(mutex_);
    ids_ = std::move(started.ids);
    gone_ = gone_ || left_;
  }
  if (gone_) return cancel();
  plan_ = std::move(started.plan);
  running_ = ids_.size();
  if (plan_->stream) {
    // The echoes of all prompts are one long event, and so are the reports of each prompt.
    const size_t long_events = started.reporting + (plan_->echo.empty() ? 0 : 1);
    network_([reply = reply_, type = format_->stream_type(), long_events] {
      reply->begin_events({.type = type, .long_events = long_events});
    });
  }
  begin_choices();
  for (Event& early : std::exchange(early_, {}))
    std::visit([&](auto& one) { on(std::move(one)); }, early);
}

void Generation::begin_choices() {
  for (uint32_t i = 0; i < ids_.size() * plan_->choices; ++i) {
    choices_.emplace_back(i,
                          ChoiceSyntax{.tools = plan_->tools.offered() ? &plan_->tools : nullptr,
                                       .syntax = plan_->syntax,
                                       .inside_thoughts = plan_->inside_thoughts,
                                       .drops_thoughts = plan_->drops_thoughts},
                          plan_->token_ids);
    if (plan_->stream) events_ += format_->begin(i);
    if (!plan_->echo.empty()) give(choices_.back().echo(plan_->echo[i / plan_->choices]));
  }
}

void Generation::give(const ChoiceText& text) {
  if (plan_->stream && says_something(text)) events_ += format_->piece(text);
}

void Generation::on(JobPiece of) {
  if (gone_) return;
  if (plan_ == nullptr) {
    early_.emplace_back(std::move(of));
    return;
  }
  KVICK_CHECK(of.piece.choice < plan_->choices, "a piece of choice {} of {}", of.piece.choice,
              plan_->choices);
  reports_follow_ = of.piece.of_prompt && of.piece.choice + 1 < plan_->choices;
  // With prompt_logprobs alone, the engine reports the answer's tokens in vain.
  if (!plan_->logprobs && !of.piece.of_prompt) of.piece.tokens.clear();
  if (!first_text_) {
    first_text_ = clock_();
    note([&](RequestFacts& facts) { facts.first_text = first_text_; });
  }
  give(choices_[of.job * plan_->choices + of.piece.choice].add(std::move(of.piece)));
}

void Generation::on(JobEnd of) {
  if (!std::exchange(of.noted, true)) note([&](RequestFacts& facts) { facts.add(of.outcome); });
  reports_follow_ = false;
  if (gone_) return;
  if (plan_ == nullptr) {
    early_.emplace_back(std::move(of));
    return;
  }
  TokenCounts& counts = end_of_answer_.counts;
  counts.prompt += of.outcome.prompt_tokens;
  counts.cached += of.outcome.cached_tokens;
  counts.moved += of.outcome.moved_tokens;
  counts.answer += of.outcome.generated_tokens;
  if (of.outcome.error && !end_of_answer_.error) {
    end_of_answer_.error = error_of(*of.outcome.error);
    // The request fails as a whole, so its other jobs would compute in vain.
    for (size_t job = 0; job < ids_.size(); ++job)
      if (job != of.job) service_.cancel(ids_[job]);
  }
  if (of.outcome.given) end_of_answer_.given = of.outcome.given;
  if (--running_ == 0) finish();
}

void Generation::take_times() {
  const double now = clock_(), first = first_text_.value_or(now);
  end_of_answer_.prompt_seconds = first - began_;
  end_of_answer_.answer_seconds = now - first;
}

void Generation::finish() {
  take_times();
  note([&](RequestFacts& facts) {
    facts.finish = choices_.front().all().finish_reason;
    if (end_of_answer_.error) facts.fail(*end_of_answer_.error, true);
  });
  if (plan_->stream) return end_stream();
  if (end_of_answer_.error) return send(format_->error(*end_of_answer_.error));
  end_of_answer_.first = &choices_.front().all();
  AnswerFormat::Frame frame = format_->frame(end_of_answer_);
  body_ = std::move(frame.before);
  behind_ = std::move(frame.behind);
  writing_body_ = true;
}

void Generation::write_choice() {
  if (next_choice_ > 0) body_ += ',';
  body_ += format_->choice(choices_[next_choice_].all());
  if (++next_choice_ < choices_.size()) return;
  writing_body_ = false;
  send({.body = std::exchange(body_, "") + behind_});
}

void Generation::end_stream() {
  events_ += format_->end(end_of_answer_);
  flush();
  if (reply_ == nullptr) return;
  network_([reply = reply_] { reply->end_events(); });
  reply_.reset();
}

void Generation::send(HttpResponse response) {
  if (reply_ == nullptr) return;
  network_([reply = reply_, response = std::move(response)]() mutable {
    reply->send(std::move(response));
  });
  reply_.reset();
}

void Generation::flush() {
  if (events_.empty() || reply_ == nullptr) return;
  network_([reply = reply_, events = std::exchange(events_, "")] { reply->event(events); });
}

void Generation::cancel() {
  gone_ = true;
  early_.clear();
  writing_body_ = false;
  for (const engine::JobId id : ids_) service_.cancel(id);
}

}  // namespace kvick::server
