#include "server/watch/otlp_exporter.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>
#include <optional>

#include "base/thread.h"
#include "server/watch/otlp_json.h"

namespace kvick::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// One POST over its own connection. It uses callbacks because only asynchronous calls can have a
// time limit.
class Posting {
 public:
  Posting(const OtlpOptions& options, std::string body) : options_(options) {
    request_.method(http::verb::post);
    request_.target(options.path);
    const bool is_ipv6 = options.host.find(':') != std::string::npos;
    const std::string host = is_ipv6 ? "[" + options.host + "]" : options.host;
    request_.set(http::field::host, host + ":" + options.port);
    request_.set(http::field::user_agent, "kvick");
    request_.set(http::field::content_type, "application/json");
    request_.keep_alive(false);
    request_.body() = std::move(body);
    request_.prepare_payload();
  }

  // Sends the request to the first address that accepts a connection. Returns what went wrong;
  // empty: the collector took it.
  std::string run(const base::Addresses& addresses, steady_clock::time_point deadline) {
    for (const std::string& address : addresses)
      endpoints_.emplace_back(asio::ip::make_address(address),
                              static_cast<uint16_t>(std::stoul(options_.port)));
    stream_.async_connect(endpoints_, [this](error_code wrong, const auto&) {
      if (wrong) return fail(wrong);
      write();
    });
    io_.run_until(deadline);
    error_code ignored;
    stream_.socket().close(ignored);
    return wrong_;
  }

 private:
  void write() {
    http::async_write(stream_, request_, [this](error_code error, size_t) {
      if (error) return fail(error);
      http::async_read(stream_, buffer_, response_, [this](error_code wrong, size_t) {
        if (wrong && wrong != http::error::end_of_stream) return fail(wrong);
        const unsigned status = response_.result_int();
        wrong_ = status / 100 == 2 ? "" : fmt::format("it answers with status {}", status);
      });
    });
  }
  void fail(error_code error) { wrong_ = error.message(); }

  const OtlpOptions& options_;
  asio::io_context io_{1};
  std::vector<asio::ip::tcp::endpoint> endpoints_;
  beast::tcp_stream stream_{io_};
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
  beast::flat_buffer buffer_{1 << 20};
  std::string wrong_ = "it did not answer in time";
};

}  // namespace

base::Result<OtlpOptions> read_otlp_address(const std::string& address) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [&] {
    return base::fail(
        "--otlp {}: give the address of a collector as http://HOST:4318; one behind TLS is reached "
        "through a collector on this machine",
        address);
  };
  if (!address.starts_with(kScheme)) return wrong();
  std::string rest = address.substr(kScheme.size());
  OtlpOptions options;
  if (const size_t slash = rest.find('/'); slash != std::string::npos) {
    const std::string folder = rest.substr(slash, rest.find_last_not_of('/') + 1 - slash);
    options.path = folder + "/v1/traces";
    rest.resize(slash);
  }
  const size_t colon = rest.rfind(':');
  if (colon != std::string::npos && rest.find(']', colon) == std::string::npos) {
    options.port = rest.substr(colon + 1);
    rest.resize(colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  const bool good_port = !options.port.empty() && options.port.size() <= 5 &&
                         options.port.find_first_not_of("0123456789") == std::string::npos &&
                         std::stoul(options.port) <= UINT16_MAX;
  if (rest.empty() || !good_port) return wrong();
  options.host = rest;
  return options;
}

OtlpExporter::OtlpExporter(OtlpOptions options, base::Resolve resolve)
    : options_(std::move(options)), lookup_(options_.host, std::move(resolve)) {
  thread_ = base::start_thread("traces", [this] { work(); });
}

OtlpExporter::~OtlpExporter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  come_.notify_one();
  thread_.join();
}

void OtlpExporter::add(RequestFacts facts) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < options_.most_waiting) {
      waiting_.push_back(std::move(facts));
      come_.notify_one();
      return;
    }
  } catch (...) {  // no memory for the span
  }
  ++dropped_;
}

SpanCounts OtlpExporter::counts() const {
  return {.sent = sent_, .failed = failed_, .dropped = dropped_};
}

void OtlpExporter::work() noexcept {
  std::optional<steady_clock::time_point> end;  // of the time for the spans that wait at the end
  while (true) {
    std::vector<RequestFacts> batch;
    bool ending = false;
    {
      std::unique_lock lock(mutex_);
      come_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      // Collects what arrives meanwhile into the same batch.
      if (!ending_) come_.wait_for(lock, options_.pause, [&] { return ending_; });
      ending = ending_;
      if (waiting_.empty()) return;
      const auto end =
          waiting_.begin() + static_cast<ptrdiff_t>(std::min(waiting_.size(), options_.most_batch));
      try {
        batch.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
      } catch (const std::bad_alloc&) {
        dropped_ += static_cast<uint64_t>(end - waiting_.begin());
      }
      waiting_.erase(waiting_.begin(), end);
    }
    if (batch.empty()) continue;
    if (ending && !end) end = steady_clock::now() + options_.time;
    const auto left = end ? *end - steady_clock::now() : options_.time;
    if (ending && (lost_ || left <= milliseconds(0))) {  // the end does not wait any longer
      dropped_ += batch.size();
      continue;
    }
    try {
      send(batch, std::chrono::ceil<milliseconds>(left));
    } catch (...) {
      failed_ += batch.size();
    }
  }
}

void OtlpExporter::send(const std::vector<RequestFacts>& batch, milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  const auto addresses = lookup_.run(time);
  const std::string wrong =
      addresses.ok()
          ? Posting(options_, otlp_text(batch, options_.version)).run(*addresses, deadline)
          : addresses.error().message;
  (wrong.empty() ? sent_ : failed_) += batch.size();
  note_answer(wrong);
}

void OtlpExporter::note_answer(const std::string& wrong) {
  const bool lost = !wrong.empty();
  if (lost == std::exchange(lost_, lost) || !options_.report) return;
  options_.report(lost ? fmt::format("the trace collector at {}:{} does not accept traces: {}",
                                     options_.host, options_.port, wrong)
                       : fmt::format("the trace collector at {}:{} accepts traces again",
                                     options_.host, options_.port));
}

}  // namespace kvick::server
