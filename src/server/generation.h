#pragma once
// One request's jobs, from submitting them to the last byte of the answer.

#include <memory>
#include <vector>

#include "server/choice.h"
#include "server/plan.h"

namespace kvick::server {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // On any thread. The service outlives it.
  Generation(engine::Service& service, Post network, std::unique_ptr<AnswerFormat> format,
             std::shared_ptr<Reply> reply);

  // From now on the client's going cancels the jobs. On the network's thread.
  void watch_client();
  // On any thread that may wait for the service. All else happens on the network's.
  void submit(Plan plan);

 private:
  // What comes of a job before all jobs are submitted is kept until then: a later refusal answers
  // instead.
  struct Early {
    size_t job = 0;
    std::optional<engine::Piece> piece;
    std::optional<engine::Outcome> outcome;
  };

  // Does a part of the request's work; what it throws ends the request.
  template <typename Call>
  void guarded(const Call& call);
  void submit_all(std::vector<engine::Job>& jobs, const std::shared_ptr<const Plan>& plan,
                  std::vector<engine::JobId>& ids);
  std::shared_ptr<const Plan> prepare(Plan plan, std::vector<engine::Job>& jobs);
  void started(std::shared_ptr<const Plan> plan, std::vector<engine::JobId> ids);
  void begin_choices();
  void refused(const engine::Refusal& refusal);
  void on_piece(size_t job, engine::Piece piece);
  void on_end(size_t job, const engine::Outcome& outcome);
  ApiError error_of(const engine::Refusal& refusal) const;
  void give(const ChoiceText& text);
  void finish();
  void cancel();

  engine::Service& service_;
  Post network_;
  std::unique_ptr<AnswerFormat> format_;
  std::shared_ptr<Reply> reply_;
  std::shared_ptr<const Plan> plan_;  // null until all jobs are submitted
  std::vector<engine::JobId> ids_;
  std::vector<Early> early_;
  std::vector<Choice> choices_;  // job j's choice c is at j * plan.choices + c
  TokenCounts counts_;
  std::optional<engine::Refusal> error_;  // of a job that could not go on
  size_t running_ = 0;
  bool gone_ = false;
};

}  // namespace kvick::server
