#pragma once
// Runs one request's jobs, from their submission to the last byte of the answer.

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
  // clock: monotonic seconds, called on answers threads. Safe on any thread. The service must
  // outlive this.
  Generation(engine::Service& service, const Threads& threads, std::unique_ptr<AnswerFormat> format,
             std::shared_ptr<Reply> reply, std::function<double()> clock);

  // Cancels the jobs if the client leaves from now on. Call it on the network's thread.
  void watch(Reply& reply);
  // Submits the jobs. Call it on a thread that may wait for the service.
  void submit(Plan plan);

 private:
  // Events of a request arrive on the threads of others, which only append them to an inbox. One
  // answers thread at a time takes them from there, writes JSON, and posts it to the network's
  // thread.
  struct Started {
    std::shared_ptr<const Plan> plan;
    std::vector<engine::JobId> ids;
    size_t reporting = 0;  // jobs that report their prompts' tokens
  };
  // Output of a job. Output is held back until all jobs are submitted: if a later job is refused,
  // the refusal is the answer instead.
  struct JobPiece {
    size_t job = 0;
    engine::AnswerPiece piece;
  };
  struct JobEnd {
    size_t job = 0;
    engine::JobOutcome outcome;
    bool noted = false;  // the request's record has it
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
  // Changes the request's record, if there is one.
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

  // Plan::lease; first member, so it is released after everything that uses the model.
  std::shared_ptr<const void> lease_;
  engine::Service& service_;
  const Post network_, answers_;
  const std::function<double()> clock_;
  const double began_;

  std::mutex mutex_;
  std::vector<Event> inbox_;        // the mutex guards this and the next three:
  bool working_ = false;            // an answers thread runs work(), or was asked to
  bool left_ = false;               // the client has left
  std::vector<engine::JobId> ids_;  // set by the answers thread

  // Only the answers thread uses the following.
  std::unique_ptr<AnswerFormat> format_;
  const std::shared_ptr<RequestRecord> record_;  // null: no record is kept
  std::shared_ptr<Reply> reply_;                 // null once it is answered
  std::shared_ptr<const Plan> plan_;             // null until all jobs are submitted
  std::vector<Event> early_;
  std::vector<Choice> choices_;  // choice c of job j is at j * plan.choices + c
  AnswerEnd end_of_answer_;
  std::optional<double> first_text_;  // time of clock_
  size_t running_ = 0;
  bool gone_ = false;   // further output of the jobs is ignored
  std::string events_;  // bytes of a stream that are not posted yet
  // Further choices' reports of the same prompt follow at once.
  bool reports_follow_ = false;
  std::string body_, behind_;  // a whole answer that is being written
  bool writing_body_ = false;
  size_t next_choice_ = 0;  // index of the first choice that body_ lacks
};

}  // namespace kvick::server
