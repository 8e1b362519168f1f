#include "server/generation.h"

#include "server/persist.h"
#include "server/sse.h"

namespace kvick::server {

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
    error.status = 429;
    error.code = "busy";
    error.headers = {{"Retry-After", "1"}};
  }
  return error;
}

Generation::Generation(engine::Service& service, Post network, std::unique_ptr<AnswerFormat> format,
                       std::shared_ptr<Reply> reply)
    : service_(service),
      network_(std::move(network)),
      format_(std::move(format)),
      reply_(std::move(reply)) {}

void Generation::watch_client() {
  reply_->on_gone([self = weak_from_this()] {
    if (const auto generation = self.lock()) generation->cancel();
  });
}

// Takes the jobs out of the plan and has them report here.
std::shared_ptr<const Plan> Generation::prepare(Plan plan, std::vector<engine::Job>& jobs) {
  jobs = std::move(plan.jobs);
  plan.jobs.clear();
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].on_piece = [self = shared_from_this(), i](engine::Piece piece) {
      self->network_([self, i, piece = std::move(piece)]() mutable {
        self->guarded([&] { self->on_piece(i, std::move(piece)); });
      });
    };
    jobs[i].on_end = [self = shared_from_this(), i](const engine::Outcome& outcome) {
      self->network_([self, i, outcome] { self->guarded([&] { self->on_end(i, outcome); }); });
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
    network_([self = shared_from_this(), refusal = submitted.error()] {
      self->guarded([&] { self->refused(refusal); });
    });
    return;
  }
  network_(
      [self = shared_from_this(), plan, ids] { self->guarded([&] { self->started(plan, ids); }); });
}

template <typename Call>
void Generation::guarded(const Call& call) {
  try {
    call();
  } catch (const std::exception&) {
    try_until_done([&] { cancel(); });
    reply_.reset();  // which answers for itself
  }
}

void Generation::refused(const engine::Refusal& refusal) {
  early_.clear();
  gone_ = true;  // nothing of the other jobs matters any more
  if (reply_ != nullptr) reply_->send(error_response(error_of(refusal)));
}

void Generation::started(std::shared_ptr<const Plan> plan, std::vector<engine::JobId> ids) {
  ids_ = std::move(ids);
  if (gone_) return cancel();
  plan_ = std::move(plan);
  running_ = ids_.size();
  if (plan_->stream) reply_->begin_events();
  begin_choices();
  for (Early& early : std::exchange(early_, {})) {
    if (early.piece) on_piece(early.job, *std::move(early.piece));
    if (early.outcome) on_end(early.job, *early.outcome);
  }
}

void Generation::begin_choices() {
  for (uint32_t i = 0; i < ids_.size() * plan_->choices; ++i) {
    choices_.emplace_back(i, plan_->tools.offered() ? &plan_->tools : nullptr);
    if (const auto first = format_->first_chunk(i); first && plan_->stream)
      reply_->event(sse_event(to_text(*first)));
    if (!plan_->echo.empty()) give(choices_.back().echo(plan_->echo[i / plan_->choices]));
  }
}

void Generation::give(const ChoiceText& text) {
  if (plan_->stream && says_something(text))
    reply_->event(sse_event(to_text(format_->chunk(text))));
}

void Generation::on_piece(size_t job, engine::Piece piece) {
  if (gone_) return;
  if (plan_ == nullptr) {
    early_.push_back({.job = job, .piece = std::move(piece)});
    return;
  }
  KVICK_CHECK(piece.choice < plan_->choices, "a piece of choice {} of {}", piece.choice,
              plan_->choices);
  give(choices_[job * plan_->choices + piece.choice].add(std::move(piece)));
}

void Generation::on_end(size_t job, const engine::Outcome& outcome) {
  if (gone_) return;
  if (plan_ == nullptr) {
    early_.push_back({.job = job, .outcome = outcome});
    return;
  }
  counts_.prompt += outcome.prompt_tokens;
  counts_.cached += outcome.cached_tokens;
  counts_.answer += outcome.generated_tokens;
  if (outcome.error) error_ = outcome.error;
  if (--running_ == 0) finish();
}

void Generation::finish() {
  if (!plan_->stream) {
    std::vector<ChoiceText> all;
    for (const Choice& choice : choices_) all.push_back(choice.all());
    reply_->send(error_ ? error_response(error_of(*error_))
                        : HttpResponse{.body = to_text(format_->whole(all, counts_))});
    return;
  }
  if (error_) reply_->event(sse_event(to_text(error_json(error_of(*error_)))));
  if (plan_->include_usage) reply_->event(sse_event(to_text(format_->usage_chunk(counts_))));
  reply_->event(kSseDone);
  reply_->end_events();
}

void Generation::cancel() {
  gone_ = true;
  early_.clear();
  for (const engine::JobId id : ids_) service_.cancel(id);
}

}  // namespace kvick::server
