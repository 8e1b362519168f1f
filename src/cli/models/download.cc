#include "cli/models/download.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <curl/curl.h>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "cli/transfer/failure.h"
#include "cli/transfer/http_response.h"

namespace kvick::cli {
namespace {

constexpr long kMaxRedirects = 10;
constexpr double kLongestWait = 30, kLongestAskedWait = 120;
// Bytes that an attempt must bring to reset the count of failures. Otherwise a server that sends
// one byte per attempt would be tried for ever.
constexpr uint64_t kProgressThatCounts = 1 << 20;
constexpr size_t kHeadBytes = 512;

// The result of one attempt.
struct Outcome {
  enum Kind { kComplete, kTryAgain, kMistake, kFailure } kind = kComplete;
  std::string why;
  double wait_s = 0;  // asked for by the server
};

bool looks_like_html(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (begin == head.npos) return false;
  std::string start(head.substr(begin, 14));
  std::transform(start.begin(), start.end(), start.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return start.starts_with("<!doctype html") || start.starts_with("<html") ||
         start.starts_with("<head");
}

std::string bytes_text(uint64_t bytes) {
  return amount_text(static_cast<double>(bytes), Unit::kBytes);
}

// One HTTP request, whose body goes to the part.
class Attempt {
 public:
  Attempt(const DownloadRequest& request, PartFile& part, Progress& progress)
      : request_(request),
        part_(part),
        progress_(progress),
        curl_(curl_easy_init(), curl_easy_cleanup) {
    if (!curl_) throw std::bad_alloc();
  }

  Outcome run();
  const std::string& stated_sha256() const { return stated_sha256_; }

 private:
  void prepare();
  void add_header(const std::string& line);
  void begin_body();
  bool is_continuation() const;
  void take(std::span<const std::byte> bytes);
  Outcome judge(CURLcode code);
  Outcome judge_status() const;
  Outcome judge_size() const;
  void refuse(Outcome outcome) { refused_ = std::move(outcome); }

  static size_t on_header(char* text, size_t one, size_t size, void* self);
  static size_t on_body(char* text, size_t one, size_t size, void* self);
  static int on_tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  const DownloadRequest& request_;
  PartFile& part_;
  Progress& progress_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_{nullptr,
                                                                       curl_slist_free_all};
  std::array<char, CURL_ERROR_SIZE> error_{};
  HttpResponse response_;
  bool first_seen_ = false, body_begun_ = false;
  std::optional<Origin> continues_;       // the part's origin, if the request continues it
  uint64_t total_ = 0, stated_size_ = 0;  // bytes; 0: not known
  std::string stated_sha256_;
  std::optional<Outcome> refused_;
  std::exception_ptr thrown_;
};

void Attempt::add_header(const std::string& line) {
  curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
  if (!longer) throw std::bad_alloc();
  static_cast<void>(headers_.release());
  headers_.reset(longer);
}

void Attempt::prepare() {
  CURL* curl = curl_.get();
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(curl, option, value);
    if (code != CURLE_OK)
      throw failure("this system's libcurl does not do what a download needs: {}",
                    curl_easy_strerror(code));
  };
  set(CURLOPT_URL, request_.url.text.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "kvick/" KVICK_VERSION);
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  // A redirect may lead from http to https, but not back: the rest would travel unencrypted and
  // could be changed.
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, request_.url.text.starts_with("https") ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, kMaxRedirects);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(request_.options.timeout_s));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request_.options.timeout_s));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &on_tick);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  if (!request_.url.user.empty()) set(CURLOPT_USERNAME, request_.url.user.c_str());
  if (!request_.url.password.empty()) set(CURLOPT_PASSWORD, request_.url.password.c_str());
  // After a redirect to another host, port or protocol, libcurl sends neither the user nor this
  // header.
  if (!request_.bearer.empty()) add_header("Authorization: Bearer " + request_.bearer);

  // A Range header instead of CURLOPT_RESUME_FROM: if a server ignores the range and answers 200,
  // the download restarts instead of failing.
  if (part_.size() > 0) continues_ = part_.origin();
  if (continues_ && (continues_->url != request_.url.shown || continues_->validator.empty()))
    continues_.reset();
  if (continues_) {
    add_header(fmt::format("Range: bytes={}-", part_.size()));
    add_header("If-Range: " + continues_->validator);
  }
  if (headers_) set(CURLOPT_HTTPHEADER, headers_.get());
}

Outcome Attempt::run() {
  prepare();
  const CURLcode code = curl_easy_perform(curl_.get());
  progress_.finish();
  if (thrown_) std::rethrow_exception(thrown_);
  if (refused_) return *refused_;
  if (code == CURLE_OK && !body_begun_) {  // the response has no body
    begin_body();
    progress_.finish();
    if (refused_) return *refused_;
  }
  return judge(code);
}

size_t Attempt::on_header(char* text, size_t one, size_t size, void* self) {
  auto& attempt = *static_cast<Attempt*>(self);
  try {
    const std::string_view line(text, one * size);
    attempt.response_.take_line(line);
    if (line == "\r\n" && attempt.response_.status >= 200 &&
        !std::exchange(attempt.first_seen_, true) && attempt.request_.hub) {
      // Only the hub's own response is trusted. After a redirect, an ETag may be anything.
      attempt.stated_sha256_ = attempt.response_.stated_sha256();
      attempt.stated_size_ = attempt.response_.linked_size.value_or(0);
    }
    return one * size;
  } catch (...) {
    attempt.thrown_ = std::current_exception();
    return 0;
  }
}

size_t Attempt::on_body(char* text, size_t one, size_t size, void* self) {
  auto& attempt = *static_cast<Attempt*>(self);
  try {
    attempt.take(std::as_bytes(std::span(text, one * size)));
  } catch (...) {
    attempt.thrown_ = std::current_exception();
  }
  return attempt.thrown_ || attempt.refused_ ? 0 : one * size;
}

int Attempt::on_tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& attempt = *static_cast<Attempt*>(self);
  if (attempt.body_begun_) attempt.progress_.update(attempt.part_.size());
  return 0;
}

// Returns whether the response continues the part. A server that does not know If-Range may send a
// range of a newer version.
bool Attempt::is_continuation() const {
  const HttpResponse& r = response_;
  return continues_ && r.range_begin == part_.size() &&
         (r.validator().empty() || r.validator() == continues_->validator) &&
         (!r.range_total || continues_->total == 0 || r.range_total == continues_->total);
}

void Attempt::begin_body() {
  body_begun_ = true;
  const HttpResponse& r = response_;
  if (r.status != 200 && r.status != 206) return refuse(judge_status());
  if (r.content_type.starts_with("text/html"))
    return refuse({Outcome::kFailure, "the server sent a web page (text/html), not a model"});
  if (!r.content_encoding.empty() && r.content_encoding != "identity")
    return refuse(
        {Outcome::kFailure,
         fmt::format("the server sent the file in the encoding {}, which was not asked for",
                     r.content_encoding)});
  if (r.status == 206) {
    if (!is_continuation()) {
      part_.clear();
      return refuse(
          {Outcome::kTryAgain, "the file on the server has changed since its download began"});
    }
    total_ = continues_->total != 0 ? continues_->total : r.range_total.value_or(0);
  } else {
    part_.clear();
    total_ = r.content_length.value_or(0);
  }
  if (total_ != 0 && stated_size_ != 0 && total_ != stated_size_)
    return refuse({Outcome::kFailure, fmt::format("the hub states {} bytes and the server has {}",
                                                  stated_size_, total_)});
  if (total_ == 0) total_ = stated_size_;
  const uint64_t needed = total_ - std::min(total_, part_.size());
  if (const uint64_t free = free_bytes(part_.target()); needed > free)
    return refuse(
        {Outcome::kFailure,
         fmt::format(
             "it needs {} more and {} has {} free; make room and run the same command again",
             bytes_text(needed), part_.target().parent_path().string(), bytes_text(free))});
  if (r.status == 200) part_.set_origin({request_.url.shown, r.validator(), total_});
  progress_.start(part_.target().filename().string(), Unit::kBytes, total_, part_.size());
}

void Attempt::take(std::span<const std::byte> bytes) {
  if (!body_begun_) begin_body();
  if (refused_) return;
  if (total_ != 0 && bytes.size() > total_ - std::min(total_, part_.size())) {
    part_.clear();
    return refuse(
        {Outcome::kFailure,
         fmt::format("the server sent more than the {} bytes that it said the file has", total_)});
  }
  part_.append(bytes);
  progress_.update(part_.size());
}

Outcome Attempt::judge_status() const {
  const int status = response_.status;
  switch (status) {
    case 401:
    case 403:
      return {Outcome::kMistake,
              fmt::format("the server refuses access (HTTP {}){}", status,
                          request_.hub ? "; if the model has terms, accept them on the hub, and "
                                         "set HF_TOKEN to your token"
                                       : "")};
    case 404:
    case 410:
      return {Outcome::kMistake,
              fmt::format("there is no such file (HTTP {}); check the name", status)};
    case 416:  // the part ends where the file does, or it belongs to another file
      if (continues_ && continues_->total == part_.size() && response_.range_total == part_.size())
        return {Outcome::kComplete};
      part_.clear();
      return {Outcome::kTryAgain, "the part downloaded earlier does not fit the file (HTTP 416)"};
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return {Outcome::kTryAgain, fmt::format("the server is not ready (HTTP {})", status),
              static_cast<double>(response_.retry_after_s.value_or(0))};
    default:
      return {Outcome::kFailure, fmt::format("the server answered HTTP {}", status)};
  }
}

Outcome Attempt::judge(CURLcode code) {
  const std::string why = error_[0] ? error_.data() : curl_easy_strerror(code);
  switch (code) {
    case CURLE_OK:
      return judge_size();
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return {Outcome::kTryAgain, why};
    case CURLE_OPERATION_TIMEDOUT:
      return {Outcome::kTryAgain, fmt::format("nothing came for {} s", request_.options.timeout_s)};
    default:
      return {Outcome::kFailure, why};
  }
}

Outcome Attempt::judge_size() const {
  if (total_ != 0 && part_.size() != total_)
    return {Outcome::kTryAgain, fmt::format("it ended after {} of {} bytes", part_.size(), total_)};
  return {Outcome::kComplete};
}

// Checks the complete file. Returns what is wrong with it; empty: nothing.
std::string objection(PartFile& part, const std::string& sha256) {
  const std::string head = part.head(kHeadBytes);
  if (head.empty()) return "the server sent an empty file";
  if (looks_like_html(head)) return "the server sent a web page, not a model";
  if (part.target().extension() == ".gguf" && !head.starts_with("GGUF"))
    return "what the server sent is not a GGUF file (it does not begin with GGUF)";
  if (!sha256.empty() && part.sha256() != sha256)
    return fmt::format("the file has the SHA-256 {} where {} is expected", part.sha256(), sha256);
  return {};
}

// Counts the attempts in a row that brought no progress, and waits between attempts.
class Patience {
 public:
  explicit Patience(const DownloadOptions& options) : options_(options) {}

  // Waits before the next attempt. Returns false when no attempts are left.
  bool go_on(const Outcome& outcome, uint64_t bytes, Progress& progress) {
    if (bytes >= best_ + kProgressThatCounts) failed_ = 0;
    best_ = std::max(best_, bytes);
    if (failed_ >= options_.retries) return false;
    double wait = std::min(
        options_.retry_wait_s * static_cast<double>(1u << std::min(failed_, 10u)), kLongestWait);
    wait = std::max(wait, std::min(outcome.wait_s, kLongestAskedWait));
    ++failed_;
    progress.note(fmt::format("{}; trying again in {:.3g} s ({} of {})", outcome.why, wait, failed_,
                              options_.retries));
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    return true;
  }

 private:
  const DownloadOptions& options_;
  uint64_t best_ = 0;
  unsigned failed_ = 0;
};

}  // namespace

base::Status<> download(const DownloadRequest& request, PartFile& part, Progress& progress) {
  const std::string& from = request.url.shown;
  for (Patience patience(request.options);;) {
    Attempt attempt(request, part, progress);
    const Outcome outcome = attempt.run();
    if (outcome.kind == Outcome::kMistake) return base::fail("{}: {}", from, outcome.why);
    if (outcome.kind == Outcome::kFailure) throw failure("{}: {}", from, outcome.why);
    if (outcome.kind == Outcome::kTryAgain) {
      if (patience.go_on(outcome, part.size(), progress)) continue;
      throw failure(
          "{}: {}; gave up after {} attempts without progress, run the same command again to go on",
          from, outcome.why, request.options.retries + 1);
    }
    const std::string wrong =
        objection(part, request.sha256.empty() ? attempt.stated_sha256() : request.sha256);
    if (wrong.empty()) return base::Done{};
    const bool mixed = part.inherited() > 0;
    part.clear();
    if (!mixed) throw failure("{}: {}; it was not kept", from, wrong);
    progress.note(
        fmt::format("{}; starting over, because the first part came from an earlier run", wrong));
  }
}

}  // namespace kvick::cli
