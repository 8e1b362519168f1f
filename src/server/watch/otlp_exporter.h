#pragma once
// Spans of requests to a collector: OTLP over HTTP, as JSON. One thread of its own sends what has
// come in batches; a collector that is slow or gone costs spans, and nothing else.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "server/watch/span_sink.h"

namespace kvick::server {

struct OtlpOptions {
  std::string host, port = "4318", path = "/v1/traces";
  std::string version;                           // of this program, for service.version
  size_t most_waiting = 4096, most_batch = 256;  // requests
  std::chrono::milliseconds pause{1000};         // between batches
  std::chrono::milliseconds time{5000};          // that the collector has for one
  // Told, in one sentence, when the collector is lost and when it is back; on the exporter's
  // thread.
  std::function<void(const std::string&)> report = {};
};

// http://HOST[:PORT][/PATH]; what is posted goes to PATH/v1/traces, as OpenTelemetry has it. Error:
// it is no such address.
base::Result<OtlpOptions> read_otlp_address(const std::string& address);

class OtlpExporter final : public SpanSink {
 public:
  explicit OtlpExporter(OtlpOptions options);
  // Sends what waits, if the collector takes it at once.
  ~OtlpExporter() override;

  void add(RequestFacts facts) noexcept override;
  SpanCounts counts() const override;

 private:
  void work() noexcept;
  void send(const std::vector<RequestFacts>& batch);
  void note_answer(const std::string& wrong);

  const OtlpOptions options_;
  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<RequestFacts> waiting_;
  bool ending_ = false;
  std::atomic<uint64_t> sent_ = 0, failed_ = 0, dropped_ = 0;
  bool lost_ = false;  // the last batch failed
  std::thread thread_;
};

}  // namespace kvick::server
