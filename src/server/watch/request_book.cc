#include "server/watch/request_book.h"

#include <chrono>

#include "server/net/reply_headers.h"
#include "server/watch/request_json.h"
#include "server/watch/trace_context.h"

namespace kvick::server {
namespace {

int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

LogLevel level_of(const RequestFacts& facts) {
  const bool busy = facts.status == 503;  // the line about pressure counts these
  if (facts.status >= 500 && !busy) return LogLevel::kWarning;
  return facts.generates || facts.status >= 400 ? LogLevel::kInfo : LogLevel::kDebug;
}

}  // namespace

// Notes how the request is answered. The destructor ends the request: after the last byte was
// handed on, or after the jobs of a client that left have ended.
class RequestBook::WatchedReply final : public Reply {
 public:
  WatchedReply(std::shared_ptr<RequestBook> book, Records::iterator record,
               std::shared_ptr<Reply> reply)
      : book_(std::move(book)), record_(record), reply_(std::move(reply)) {}
  ~WatchedReply() override { book_->end(record_); }

  void send(HttpResponse response) override {
    note(response.status, true);
    reply_->send(std::move(response));
  }
  void begin_events(StreamHead head) override {
    note(200, false);
    reply_->begin_events(std::move(head));
  }
  void event(std::string_view bytes) override { reply_->event(bytes); }
  void end_events() override {
    note(200, true);
    reply_->end_events();
  }
  void on_gone(std::function<void()> gone) override {
    reply_->on_gone([record = *record_, clock = book_->options_.clock, gone = std::move(gone)] {
      record->change([&](RequestFacts& facts) {
        facts.status = kClientLeft;
        facts.ended = clock();
      });
      gone();
    });
  }
  std::shared_ptr<RequestRecord> record() const override { return *record_; }

 private:
  void note(unsigned status, bool ends) {
    (*record_)->change([&](RequestFacts& facts) {
      if (facts.status != kClientLeft) facts.status = status;
      if (ends && facts.ended == 0) facts.ended = book_->now();
    });
  }

  std::shared_ptr<RequestBook> book_;
  Records::iterator record_;
  std::shared_ptr<Reply> reply_;
};

RequestBook::RequestBook(BookOptions options)
    : options_(std::move(options)), started_(static_cast<double>(unix_ns()) / 1e9) {}

void RequestBook::trace(RequestFacts& facts, const std::string& trace_parent) {
  const std::optional<TraceParent> parent = read_trace_parent(trace_parent);
  const std::lock_guard lock(mutex_);
  const auto draw = [&] { return hexadecimal(options_.random() | 1); };  // never 0
  facts.trace = parent ? parent->trace : draw() + draw();
  facts.parent = parent ? parent->parent : "";
  facts.span = draw();
  facts.traced = !parent || parent->sampled;
}

std::shared_ptr<Reply> RequestBook::begin(RequestFacts facts, const std::string& trace_parent,
                                          std::shared_ptr<Reply> reply) {
  facts.began = now();
  facts.began_unix_ns = unix_ns();
  if (options_.spans != nullptr) {
    trace(facts, trace_parent);
    const TraceParent ours = {.trace = facts.trace, .parent = facts.span, .sampled = facts.traced};
    reply = with_headers(std::move(reply), {{"traceparent", trace_parent_text(ours)}});
  }
  Records one;
  one.push_back(std::make_shared<RequestRecord>(std::move(facts)));
  const auto record = one.begin();
  // Allocates before the record enters the list: nothing may fail after that.
  auto watched = std::make_shared<WatchedReply>(shared_from_this(), record, std::move(reply));
  const std::lock_guard lock(mutex_);
  running_.splice(running_.end(), one);
  return watched;
}

void RequestBook::end(Records::iterator record) noexcept {
  std::shared_ptr<RequestRecord> ended;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(*record);
    running_.erase(record);
  }
  try {
    RequestFacts facts = ended->facts();
    if (facts.ended == 0) facts.ended = now();
    if (facts.status == 0) facts.status = 500;  // the connection answers 500 too
    log(facts);
    if (!facts.generates) return;
    if (options_.spans != nullptr && facts.traced) options_.spans->add(facts);
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(facts));
    if (ended_.size() > options_.most_ended) ended_.pop_front();
  } catch (...) {  // no memory for the note
  }
}

void RequestBook::refuse(RequestFacts facts, unsigned status) {
  facts.began = facts.ended = now();
  facts.status = status;
  log(facts);
}

void RequestBook::log(const RequestFacts& facts) const {
  const LogLevel level = level_of(facts);
  if (options_.log == nullptr || !options_.log->takes(level)) return;
  options_.log->write({.level = level,
                       .name = "request",
                       .message = facts.method + " " + facts.route,
                       .fields = request_json(facts)});
}

bool RequestBook::wants_pressure() {
  const std::lock_guard lock(mutex_);
  if (options_.log == nullptr || now() < pressure_at_) return false;
  pressure_at_ = now() + options_.pressure_seconds;
  return true;
}

void RequestBook::take_pressure(const engine::Metrics& metrics) {
  Json fields = Json::object();
  {
    const std::lock_guard lock(mutex_);
    const auto more = [&](const char* name, uint64_t after, uint64_t before) {
      if (after > before) fields[name] = after - before;
    };
    more("refused", metrics.refused, pressure_.refused);
    more("preempted", metrics.swaps + metrics.recomputations,
         pressure_.swaps + pressure_.recomputations);
    more("evicted_bytes", metrics.kv.evicted_bytes, pressure_.kv.evicted_bytes);
    pressure_ = metrics;
  }
  if (fields.empty()) return;
  options_.log->write({.level = LogLevel::kInfo,
                       .name = "pressure",
                       .message = "since the last such line",
                       .fields = std::move(fields)});
}

std::vector<RequestFacts> RequestBook::running() const {
  std::vector<std::shared_ptr<RequestRecord>> records;
  {
    const std::lock_guard lock(mutex_);
    records.assign(running_.begin(), running_.end());
  }
  std::vector<RequestFacts> facts;
  for (const auto& record : records) facts.push_back(record->facts());
  return facts;
}

std::vector<RequestFacts> RequestBook::ended() const {
  const std::lock_guard lock(mutex_);
  return {ended_.begin(), ended_.end()};
}

WatchCounts RequestBook::counts() const {
  return {.dropped_lines = options_.log != nullptr ? options_.log->dropped() : 0,
          .traces = options_.spans != nullptr,
          .spans = options_.spans != nullptr ? options_.spans->counts() : SpanCounts{},
          .started = started_};
}

}  // namespace kvick::server
