#pragma once
// A connection to a store that is opened on first use and reopened when it is lost. When that
// fails, the link pauses before the next try. For one thread; any thread may call usable(),
// connected() and failures().

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
  // Called on the link's thread, with one sentence, when the store stops answering and when it
  // answers again.
  std::function<void(const std::string&)> report;
  base::Resolve resolve = base::resolve_by_system;
};

class Link {
 public:
  explicit Link(LinkOptions options)
      : options_(std::move(options)),
        breaker_(options_.first_pause_seconds, options_.most_pause_seconds),
        lookup_(options_.address.host, options_.resolve) {}

  // False during the pause after a failure.
  bool usable() const { return usable_.load(std::memory_order_relaxed); }
  bool connected() const { return connected_.load(std::memory_order_relaxed); }
  // Time of the next try, in base::steady_seconds(), while the link is not usable.
  double retry_at() const { return breaker_.until(); }
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }

  // Runs an exchange of commands and replies. On a connection that was open already, a failed
  // exchange is run a second time over a new connection: the store may have closed an idle
  // connection, which only its use shows. Returns false if the store does not answer. After an
  // error or an exception of the exchange the connection is dropped.
  using Exchange = base::FunctionRef<base::Status<>(RedisClient&)>;
  bool run(Exchange exchange);
  // Connects if it is not connected. Returns false if that fails or the link pauses.
  bool try_to_connect();

 private:
  base::Status<> connect();
  void drop();
  void fail(const std::string& why);

  LinkOptions options_;
  Breaker breaker_;
  base::HostLookup lookup_;
  std::unique_ptr<RedisClient> client_;
  std::atomic<bool> usable_{true}, connected_{false};
  std::atomic<uint64_t> failures_{0};
};

}  // namespace kvick::store
