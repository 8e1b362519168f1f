#include "server/api/generation.h"

#include "server/net/persist.h"
#include "server/net/sse.h"
#include "server/openai/kv_transfer.h"

namespace kvick::server {

// A stream's text is sent as soon as it has so many bytes.
constexpr size_t kMostAtOnce = 64 << 10;

ApiError Generation::error_of(const engine::Refusal& refusal) const {
  ApiError error = {.message = refusal.message, .param = refusal.field};
  if (error.param == "prompt") error.param = format_->prompt_field();
  if (refusal.why == engine::Refusal::Why::kTooLong) error.code = "context_length_exceeded";
  if (refusal.why == engine::Refusal::Why::kTooLarge) error.code = "too_large";
  if (refusal.why == engine::Refusal::Why::kLost) {
    error.status = 500;
    error.code = "cache_failed";
  }
  if (refusal.why == engine::Refusal::Why::kFailed) {
    error.status = 500;
    error.code = "engine_failed";
  }
  if (refusal.why == engine::Refusal::Why::kBusy) {
    error.status = 503;  // which routers try elsewhere
    error.code = "busy";
    error.headers = {{"Retry-After", "1"}};
  }
  return error;
}

Generation::Generation(engine::Service& service, const Threads& threads,
                       std::unique_ptr<AnswerFormat> format, std::shared_ptr<Reply> reply)
    : service_(service),
      network_(threads.network),
      answers_(threads.answers),
      format_(std::move(format)),
      reply_(std::move(reply)) {}

void Generation::watch(Reply& reply) {
  reply.on_gone([self = weak_from_this()] {
    if (const auto generation = self.lock()) generation->leave();
  });
}

// At once, though all threads for answers be busy.
void Generation::leave() {
  std::vector<engine::JobId> ids;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    ids = ids_;
  }
  for (const engine::JobId id : ids) service_.cancel(id);
}

// Takes the jobs out of the plan and has them report here.
std::shared_ptr<const Plan> Generation::prepare(Plan plan, std::vector<engine::Job>& jobs) {
  jobs = std::move(plan.jobs);
  plan.jobs.clear();
  for (size_t i = 0; i < jobs.size(); ++i) {
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
  for (engine::Job& job : jobs) {
    auto submitted = service_.submit(std::move(job));
    if (submitted.ok()) {
      ids.push_back(*submitted);
      continue;
    }
    for (const engine::JobId id : ids) service_.cancel(id);
    return post(submitted.error());
  }
  post(Started{plan, ids});
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
  working_ = false;  // the next event calls again
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
  return working_ = !inbox_.empty() || !body_.empty();
}

// One turn: handles the events that are in the inbox, and writes one choice of a whole answer. Then
// other requests have the thread. A stream's text is sent every kMostAtOnce bytes, not only at the
// end of the turn: the network notices a client that does not read when it is given text, and while
// a long turn lasts the inbox grows, so that the next turn is longer still.
void Generation::work() noexcept {
  try {
    for (Event& event : take_events()) {
      std::visit([&](auto& one) { on(std::move(one)); }, event);
      if (events_.size() < kMostAtOnce) continue;
      flush();
      gone_ = has_left();
    }
    if (gone_) body_.clear();
    if (!body_.empty()) write_choice();
    flush();
  } catch (const std::exception&) {
    fail();
  }
  if (has_more()) call_worker();
}

// What it throws ends the request.
void Generation::fail() {
  try_until_done([&] { cancel(); });
  reply_.reset();  // which answers for itself
}

// ---- what happens ----

void Generation::on(const engine::Refusal& refusal) {
  early_.clear();
  gone_ = true;
  send(error_response(error_of(refusal)));
}

void Generation::on(Started started) {
  {
    const std::lock_guard lock(mutex_);
    ids_ = std::move(started.ids);
    gone_ = gone_ || left_;
  }
  if (gone_) return cancel();
  plan_ = std::move(started.plan);
  running_ = ids_.size();
  if (plan_->stream) network_([reply = reply_] { reply->begin_events(); });
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
    if (const auto first = format_->first_chunk(i); first && plan_->stream)
      events_ += sse_event(to_text(*first));
    if (!plan_->echo.empty()) give(choices_.back().echo(plan_->echo[i / plan_->choices]));
  }
}

void Generation::give(const ChoiceText& text) {
  if (plan_->stream && says_something(text)) events_ += sse_event(to_text(format_->chunk(text)));
}

void Generation::on(JobPiece of) {
  if (gone_) return;
  if (plan_ == nullptr) {
    early_.emplace_back(std::move(of));
    return;
  }
  KVICK_CHECK(of.piece.choice < plan_->choices, "a piece of choice {} of {}", of.piece.choice,
              plan_->choices);
  give(choices_[of.job * plan_->choices + of.piece.choice].add(std::move(of.piece)));
}

void Generation::on(JobEnd of) {
  if (gone_) return;
  if (plan_ == nullptr) {
    early_.emplace_back(std::move(of));
    return;
  }
  counts_.prompt += of.outcome.prompt_tokens;
  counts_.cached += of.outcome.cached_tokens;
  counts_.answer += of.outcome.generated_tokens;
  if (of.outcome.error) error_ = of.outcome.error;
  if (of.outcome.given) given_ = of.outcome.given;
  if (--running_ == 0) finish();
}

void Generation::finish() {
  if (plan_->stream) return end_stream();
  if (error_) return send(error_response(error_of(*error_)));
  // An answer without choices, which then come into its list one by one.
  constexpr std::string_view kList = "\"choices\":[";
  Json whole = format_->whole({}, counts_);
  if (given_) whole["kv_transfer_params"] = kv_transfer_json(*given_);
  body_ = to_text(whole);
  const size_t at = body_.find(kList);
  KVICK_CHECK(at != std::string::npos, "an answer without choices: {}", body_);
  end_ = body_.substr(at + kList.size());
  body_.resize(at + kList.size());
}

void Generation::write_choice() {
  if (next_choice_ > 0) body_ += ',';
  body_ += to_text(format_->one_choice(choices_[next_choice_].all()));
  if (++next_choice_ < choices_.size()) return;
  body_ += end_;
  send({.body = std::exchange(body_, "")});
}

void Generation::end_stream() {
  if (error_) events_ += sse_event(to_text(error_json(error_of(*error_))));
  if (plan_->include_usage) events_ += sse_event(to_text(format_->usage_chunk(counts_)));
  events_ += kSseDone;
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
  body_.clear();
  for (const engine::JobId id : ids_) service_.cancel(id);
}

}  // namespace kvick::server
