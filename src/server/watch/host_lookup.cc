#include "server/watch/host_lookup.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <netdb.h>
#include <optional>
#include <sys/socket.h>

#include "base/thread.h"

namespace kvick::server {

struct HostLookup::Running {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<base::Result<Addresses>> found;
};

base::Result<Addresses> resolve_by_system(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;  // otherwise each address comes once for each type of socket
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) return base::fail("its name is not found: {}", ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text = {};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  if (addresses.empty()) return base::fail("its name has no address");
  return addresses;
}

HostLookup::HostLookup(std::string host, Resolve resolve)
    : host_(std::move(host)), resolve_(std::move(resolve)) {}

base::Result<Addresses> HostLookup::run(std::chrono::milliseconds time) {
  if (running_ == nullptr) {
    auto running = std::make_shared<Running>();
    base::start_thread("the lookup of a host", [running, host = host_, resolve = resolve_] {
      std::optional<base::Result<Addresses>> found;
      try {
        found = resolve(host);
      } catch (const std::bad_alloc&) {
        found = base::Error{"no memory"};
      }
      const std::lock_guard lock(running->mutex);
      running->found = std::move(found);
      running->done.notify_all();
    }).detach();
    running_ = std::move(running);
  }
  const auto running = running_;
  std::unique_lock lock(running->mutex);
  if (!running->done.wait_for(lock, time, [&] { return running->found.has_value(); }))
    return base::fail("its name is not found in time");
  running_ = nullptr;
  return *std::move(running->found);
}

}  // namespace kvick::server
