#include "server/embeddings/embed.h"

#include <mutex>
#include <utility>

#include "server/net/persist.h"
#include "server/request/job_error.h"
#include "server/request/request_record.h"

namespace kvick::server {
namespace {

// The jobs of one request. The mutex guards all state: jobs end on the service's thread, the
// client's leaving is reported on the network's, and jobs are submitted on background threads.
class EmbeddingJobs : public std::enable_shared_from_this<EmbeddingJobs> {
 public:
  EmbeddingJobs(engine::Service& service, Threads threads, TextsToEmbed texts, EmbeddingsDone done,
                std::shared_ptr<RequestRecord> record)
      : service_(service),
        threads_(std::move(threads)),
        texts_(std::move(texts)),
        record_(std::move(record)),
        done_(std::move(done)) {
    embeddings_.vectors.resize(texts_.texts.size());
  }

  // On the network's thread.
  void watch(Reply& reply) {
    reply.on_gone([self = weak_from_this()] {
      if (const auto jobs = self.lock()) jobs->leave();
    });
  }
  // Submits jobs until the service has as many as allowed at once or no text is left.
  void submit() noexcept;

 private:
  std::optional<size_t> next_text();
  engine::Job job_of(size_t text);
  bool submit_one(size_t text);
  bool put_back(size_t text, uint64_t before);
  uint64_t ended();
  bool runs();
  void take(size_t text, const engine::JobOutcome& outcome);
  void fail(std::optional<engine::Refusal> why) noexcept;
  void leave();
  void cancel(const std::vector<engine::JobId>& ids) noexcept;
  bool has_more() const;
  bool is_over();
  void finish() noexcept;
  ApiResult<Embeddings> result();

  engine::Service& service_;
  const Threads threads_;
  std::mutex mutex_;
  const TextsToEmbed texts_;
  const std::shared_ptr<RequestRecord> record_;  // null: no record is kept
  Embeddings embeddings_;
  // next_: index of the next text. running_: jobs that have not ended.
  size_t next_ = 0, running_ = 0;
  std::vector<size_t> again_;  // texts that a full queue refused while other jobs ran
  uint64_t ended_ = 0;         // number of ended jobs
  std::vector<engine::JobId> ids_;
  std::optional<engine::Refusal> error_;
  bool stopped_ = false;  // no further text is submitted, because a job failed or
  bool left_ = false;     // the client has left
  bool over_ = false;
  EmbeddingsDone done_;  // used only by the thread that calls finish()
};

std::optional<size_t> EmbeddingJobs::next_text() {
  const std::lock_guard lock(mutex_);
  if (!has_more() || running_ == kMostTextsAtOnce) return std::nullopt;
  ++running_;
  if (again_.empty()) return next_++;
  const size_t text = again_.back();
  again_.pop_back();
  return text;
}

engine::Job EmbeddingJobs::job_of(size_t text) {
  engine::Job job;
  job.prompt = texts_.texts[text];
  job.pooling = texts_.pooling;
  if (record_ != nullptr) job.request = record_->facts().id;
  if (!texts_.seconds.empty()) job.second_text = texts_.seconds[text];
  job.adapter = texts_.adapter;
  job.on_end = [self = shared_from_this(), text](const engine::JobOutcome& outcome) {
    self->take(text, outcome);
  };
  return job;
}

// Returns false if the queue is full; the text is then submitted again later.
bool EmbeddingJobs::submit_one(size_t text) {
  const uint64_t before = ended();
  auto submitted = service_.submit(job_of(text));
  if (!submitted.ok()) {
    const bool busy = submitted.error().why == engine::Refusal::Why::kBusy;
    if (busy && put_back(text, before)) return false;
    fail(std::move(submitted).error());
    return true;
  }
  if (record_ != nullptr)
    record_->change([&](RequestFacts& facts) { facts.jobs.push_back(*submitted); });
  bool stopped = false;
  {
    const std::lock_guard lock(mutex_);
    ids_.push_back(*submitted);
    stopped = stopped_;
  }
  if (stopped) cancel({*submitted});
  return true;
}

// Keeps a text for later if the queue is full and there will be room when a job of this request
// ends. Returns false if none is running and none has ended since the text was submitted. before:
// ended() at that time.
bool EmbeddingJobs::put_back(size_t text, uint64_t before) {
  const std::lock_guard lock(mutex_);
  if (running_ == 1 && ended_ == before) return false;
  again_.push_back(text);
  --running_;
  return true;
}

uint64_t EmbeddingJobs::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool EmbeddingJobs::runs() {
  const std::lock_guard lock(mutex_);
  return running_ > 0;
}

void EmbeddingJobs::submit() noexcept {
  while (const std::optional<size_t> text = next_text()) {
    try {
      if (!submit_one(*text) && runs()) return;  // the end of a running job calls submit() again
    } catch (...) {
      fail(std::nullopt);
    }
  }
}

// Runs on the service's thread, which calls it again if it throws, so what may throw comes before
// anything is counted.
void EmbeddingJobs::take(size_t text, const engine::JobOutcome& outcome) {
  std::vector<float> embedding = outcome.embedding;
  std::optional<engine::Refusal> error = outcome.error;
  if (record_ != nullptr) record_->change([&](RequestFacts& facts) { facts.add(outcome); });
  bool more = false;
  std::vector<engine::JobId> in_vain;  // of a request that fails because of this job
  {
    const std::lock_guard lock(mutex_);
    embeddings_.vectors[text] = std::move(embedding);
    if (error && !error_) error_ = std::move(error);
    embeddings_.tokens += outcome.prompt_tokens;
    stopped_ = stopped_ || outcome.error;
    if (outcome.error) in_vain.swap(ids_);
    --running_;
    ++ended_;
    more = has_more();
  }
  cancel(in_vain);
  if (more) {
    try_until_done([&] { threads_.background([self = shared_from_this()] { self->submit(); }); });
  } else if (is_over()) {
    try_until_done([&] { threads_.answers([self = shared_from_this()] { self->finish(); }); });
  }
}

// Stops the request because a job was not accepted. why: nothing for lack of memory or a bug.
void EmbeddingJobs::fail(std::optional<engine::Refusal> why) noexcept {
  std::vector<engine::JobId> ids;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    --running_;
    if (!error_) error_ = std::move(why);
    ids.swap(ids_);
  }
  cancel(ids);
  if (is_over())
    try_until_done([&] { threads_.answers([self = shared_from_this()] { self->finish(); }); });
}

void EmbeddingJobs::leave() {
  std::vector<engine::JobId> ids;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = left_ = true;
    ids.swap(ids_);
  }
  cancel(ids);
}

void EmbeddingJobs::cancel(const std::vector<engine::JobId>& ids) noexcept {
  for (const engine::JobId id : ids) try_until_done([&] { service_.cancel(id); });
}

// Under the mutex.
bool EmbeddingJobs::has_more() const {
  return !stopped_ && (next_ < texts_.texts.size() || !again_.empty());
}

// Returns true once, when all jobs have ended and no text is left.
bool EmbeddingJobs::is_over() {
  const std::lock_guard lock(mutex_);
  if (running_ > 0 || has_more()) return false;
  return !std::exchange(over_, true);
}

ApiResult<Embeddings> EmbeddingJobs::result() {
  if (error_) return job_error(*error_, texts_.field);
  for (const std::vector<float>& vector : embeddings_.vectors)
    if (vector.empty())  // its job was cancelled or not submitted
      return ApiError{.status = 503,
                      .message = "the server could not read all texts; ask again",
                      .code = "busy",
                      .headers = {{"Retry-After", "1"}}};
  return std::move(embeddings_);
}

void EmbeddingJobs::finish() noexcept {
  const EmbeddingsDone done = std::exchange(done_, nullptr);
  try {
    bool left = false;
    {
      const std::lock_guard lock(mutex_);
      left = left_;
    }
    if (!left) done(result());
  } catch (const std::exception&) {  // the destructor of the reply answers
  }
}

}  // namespace

void embed(engine::Service& service, const Threads& threads, TextsToEmbed texts,
           const std::shared_ptr<Reply>& reply, EmbeddingsDone done) {
  const auto jobs = std::make_shared<EmbeddingJobs>(service, threads, std::move(texts),
                                                    std::move(done), reply->record());
  threads.network([jobs, reply] { jobs->watch(*reply); });
  jobs->submit();
}

}  // namespace kvick::server
