#include "base/network/host_lookup.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <netdb.h>
#include <optional>
#include <sys/socket.h>

#include "base/thread.h"

namespace kvick::base {
namespace {

// The longest wait between two looks at the stop flag.
constexpr std::chrono::milliseconds kPoll{50};

}  // namespace

struct HostLookup::Running {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Result<Addresses>> found;
};

Result<Addresses> resolve_by_system(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;  // otherwise each address comes once for each type of socket
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) return fail("its name is not found: {}", ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text = {};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  if (addresses.empty()) return fail("its name has no address");
  return addresses;
}

HostLookup::HostLookup(std::string host, Resolve resolve)
    : host_(std::move(host)), resolve_(std::move(resolve)) {}

Result<Addresses> HostLookup::run(std::chrono::milliseconds time, const std::atomic<bool>* stop) {
  if (running_ == nullptr) {
    auto running = std::make_shared<Running>();
    start_thread("the lookup of a host", [running, host = host_, resolve = resolve_] {
      std::optional<Result<Addresses>> found;
      try {
        found = resolve(host);
      } catch (const std::bad_alloc&) {
        found = Error{"no memory"};
      }
      const std::lock_guard lock(running->mutex);
      running->found = std::move(found);
      running->done.notify_all();
    }).detach();
    running_ = std::move(running);
  }
  const auto running = running_;
  const auto deadline = std::chrono::steady_clock::now() + time;
  std::unique_lock lock(running->mutex);
  while (!running->found) {
    if (stop != nullptr && *stop) return fail("the program is ending");
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return fail("its name is not found in time");
    running->done.wait_until(lock, stop == nullptr ? deadline : std::min(deadline, now + kPoll));
  }
  running_ = nullptr;
  return *std::move(running->found);
}

}  // namespace kvick::base
