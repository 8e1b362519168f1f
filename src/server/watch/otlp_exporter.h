#pragma once
// Exports spans of requests to a collector: OTLP over HTTP, as JSON. Its own thread sends the spans
// in batches. A slow or missing collector costs spans, but never delays a request.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/network/host_lookup.h"
#include "base/result.h"
#include "server/watch/span_sink.h"

namespace kvick::server {

struct OtlpOptions {
  std::string host, port = "4318", path = "/v1/traces";
  std::string version;                           // version of this program, for service.version
  size_t most_waiting = 4096, most_batch = 256;  // limits in requests
  std::chrono::milliseconds pause{1000};         // pause between batches
  std::chrono::milliseconds time{5000};          // time limit of one batch, and of all at the end
  // Called on the exporter's thread with one sentence when the collector is lost and when it is
  // back.
  std::function<void(const std::string&)> report = {};
};

// Parses http://HOST[:PORT][/PATH]; spans are posted to PATH/v1/traces, as OpenTelemetry specifies.
// Error: the address has another form.
base::Result<OtlpOptions> read_otlp_address(const std::string& address);

class OtlpExporter final : public SpanSink {
 public:
  explicit OtlpExporter(OtlpOptions options, base::Resolve resolve = base::resolve_by_system);
  // Sends the waiting spans, but drops them once the collector fails or options.time is over. A
  // batch that is being sent has its own time.
  ~OtlpExporter() override;

  void add(RequestFacts facts) noexcept override;
  SpanCounts counts() const override;

 private:
  void work() noexcept;
  void send(const std::vector<RequestFacts>& batch, std::chrono::milliseconds time);
  void note_answer(const std::string& wrong);

  const OtlpOptions options_;
  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<RequestFacts> waiting_;
  bool ending_ = false;
  std::atomic<uint64_t> sent_ = 0, failed_ = 0, dropped_ = 0;
  base::HostLookup lookup_;  // the exporter's thread only
  bool lost_ = false;        // the last batch failed
  std::thread thread_;
};

}  // namespace kvick::server
