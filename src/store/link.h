#pragma once
// A connection that reconnects: made when it is needed, made again after it was lost, and given up
// for a while when that fails. For one thread, except usable().

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "store/breaker.h"
#include "store/redis_client.h"

#include "base/function_ref.h"

namespace kvick::store {

struct LinkOptions {
  StoreAddress address;
  double connect_seconds = 1;
  double first_pause_seconds = 0.1, most_pause_seconds = 5;
  const std::atomic<bool>* stop = nullptr;
  // Told when the store does not answer any more, and when it does again; on the link's thread.
  std::function<void(const std::string&)> report;
};

class Link {
 public:
  explicit Link(LinkOptions options)
      : options_(std::move(options)),
        breaker_(options_.first_pause_seconds, options_.most_pause_seconds) {}

  // False while it is given up; from any thread.
  bool usable() const { return usable_.load(std::memory_order_relaxed); }
  bool connected() const { return connected_.load(std::memory_order_relaxed); }
  // When it should be tried again, if it is given up.
  double retry_at() const { return breaker_.until(); }
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }

  // Runs an exchange, which may be run twice: a store that was idle for long may have closed the
  // connection, which is seen only in use. False: the store does not answer. The exchange's own
  // error, or what it throws, means that the connection is of no use any more.
  using Exchange = base::FunctionRef<base::Status<>(RedisClient&)>;
  bool run(Exchange exchange);
  // Connects if it is not connected.
  bool try_to_connect();

 private:
  base::Status<> connect();
  void drop();
  void fail(const std::string& why);

  LinkOptions options_;
  Breaker breaker_;
  std::unique_ptr<RedisClient> client_;
  std::atomic<bool> usable_{true}, connected_{false};
  std::atomic<uint64_t> failures_{0};
};

}  // namespace kvick::store
