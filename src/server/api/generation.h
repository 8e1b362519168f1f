#pragma once
// One request's jobs, from submitting them to the last byte of the answer.

#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "server/answer/choice.h"
#include "server/openai/plan.h"
#include "server/request/request_record.h"

namespace kvick::server {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // clock: seconds, never back; called on threads for answers. On any thread. The service outlives
  // it.
  Generation(engine::Service& service, const Threads& threads, std::unique_ptr<AnswerFormat> format,
             std::shared_ptr<Reply> reply, std::function<double()> clock);

  // From now on the client's going cancels the jobs. On the network's thread.
  void watch(Reply& reply);
  // On any thread that may wait for the service.
  void submit(Plan plan);

 private:
  // What happens to a request comes from threads of others, which only leave it in an inbox. One of
  // the threads for answers at a time takes it from there, writes JSON, and has the network's send
  // it.
  struct Started {
    std::shared_ptr<const Plan> plan;
    std::vector<engine::JobId> ids;
  };
  // Output of a job. Output from before all jobs are submitted is held back, because the refusal of
  // a later job would be the answer instead.
  struct JobPiece {
    size_t job = 0;
    engine::AnswerPiece piece;
  };
  struct JobEnd {
    size_t job = 0;
    engine::JobOutcome outcome;
  };
  using Event = std::variant<JobPiece, JobEnd, Started, engine::Refusal>;

  void leave();
  void post(Event event);
  void call_worker();
  void work() noexcept;
  std::vector<Event> take_events();
  bool has_left();
  bool has_more();
  void fail();

  void submit_all(std::vector<engine::Job>& jobs, const std::shared_ptr<const Plan>& plan,
                  std::vector<engine::JobId>& ids);
  std::shared_ptr<const Plan> prepare(Plan plan, std::vector<engine::Job>& jobs);
  void on(Started started);
  void on(const engine::Refusal& refusal);
  void on(JobPiece piece);
  void on(JobEnd end);
  void begin_choices();
  ApiError error_of(const engine::Refusal& refusal) const;
  void give(const ChoiceText& text);
  void take_times();
  // Changes what is kept of the request, if anything is.
  template <typename Change>
  void note(const Change& change) {
    if (record_ != nullptr) record_->change(change);
  }
  void finish();
  void end_stream();
  void write_choice();
  void send(HttpResponse response);
  void flush();
  void cancel();

  std::shared_ptr<const void> lease_;  // Plan's; ends after all that is of the model
  engine::Service& service_;
  const Post network_, answers_;
  const std::function<double()> clock_;
  const double began_;

  std::mutex mutex_;
  std::vector<Event> inbox_;        // under the mutex, as is:
  bool working_ = false;            // a thread for answers is at it, or was called
  bool left_ = false;               // the client has gone
  std::vector<engine::JobId> ids_;  // set by who works

  // Only of the thread that works.
  std::unique_ptr<AnswerFormat> format_;
  const std::shared_ptr<RequestRecord> record_;  // null: nobody keeps one
  std::shared_ptr<Reply> reply_;                 // null once it has its answer
  std::shared_ptr<const Plan> plan_;             // null until all jobs are submitted
  std::vector<Event> early_;
  std::vector<Choice> choices_;  // job j's choice c is at j * plan.choices + c
  AnswerEnd end_of_answer_;
  std::optional<double> first_text_;  // clock_'s
  size_t running_ = 0;
  bool gone_ = false;          // nothing of the jobs matters any more
  std::string events_;         // of a stream, not yet with the network
  std::string body_, behind_;  // of a whole answer that is being written
  bool writing_body_ = false;
  size_t next_choice_ = 0;  // the first that body_ has not
};

}  // namespace kvick::server
