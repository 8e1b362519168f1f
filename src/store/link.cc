#include "store/link.h"

#include "base/clock.h"

namespace kvick::store {

using base::Done;
using base::Status;

Status<> Link::connect() {
  if (client_ != nullptr) return Done{};
  KVICK_TRY(client_, RedisClient::connect(
                         options_.address, lookup_,
                         {base::steady_seconds() + options_.connect_seconds, options_.stop}));
  connected_ = true;
  if (!usable_.exchange(true) && options_.report)
    options_.report(fmt::format("the store at {} answers again", options_.address.text()));
  return Done{};
}

bool Link::try_to_connect() {
  if (!usable_ && !breaker_.closed(base::steady_seconds())) return false;
  const Status<> connected = [&]() -> Status<> {
    try {
      return connect();
    } catch (const std::bad_alloc&) {  // the next try waits, or its thread would do nothing else
      return base::Error{"no memory"};
    }
  }();
  if (!connected.ok()) {
    fail(connected.error().message);
    return false;
  }
  return true;
}

void Link::drop() {
  client_ = nullptr;
  connected_ = false;
  ++failures_;
}

void Link::fail(const std::string& why) {
  drop();
  breaker_.fail(base::steady_seconds());
  const bool ending = options_.stop != nullptr && *options_.stop;
  if (usable_.exchange(false) && options_.report && !ending)
    options_.report(fmt::format("the store at {} is not used until it answers: {}",
                                options_.address.text(), why));
}

bool Link::run(Exchange exchange) {
  if (!usable_ && !breaker_.closed(base::steady_seconds())) return false;
  for (bool reused = client_ != nullptr;; reused = false) {
    if (!try_to_connect()) return false;
    const Status<> done = [&] {
      try {
        return exchange(*client_);
      } catch (...) {  // the next exchange must not read the replies that are still due
        drop();
        throw;
      }
    }();
    if (done.ok()) {
      breaker_.succeed();
      return true;
    }
    if (!reused || (options_.stop != nullptr && *options_.stop)) {
      fail(done.error().message);
      return false;
    }
    drop();
  }
}

}  // namespace kvick::store
