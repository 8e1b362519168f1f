#pragma once
// Looks up the addresses of a host with a time limit. The system's resolver takes half a minute if
// no name server answers, and cannot be interrupted: it runs on a thread of its own, which ends by
// itself.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvick::base {

using Addresses = std::vector<std::string>;  // numeric: "127.0.0.1", "fe80::1%eth0"
using Resolve = std::function<Result<Addresses>(const std::string& host)>;

// Asks the system's resolver, without a time limit.
Result<Addresses> resolve_by_system(const std::string& host);

// For one thread at a time.
class HostLookup {
 public:
  explicit HostLookup(std::string host, Resolve resolve = resolve_by_system);
  // Returns at least one address. If the time is over, or soon after another thread has set the
  // stop flag, the lookup goes on, and the next call waits for the same one. Throws if the system
  // starts no thread.
  Result<Addresses> run(std::chrono::milliseconds time, const std::atomic<bool>* stop = nullptr);

 private:
  struct Running;  // shared with the thread of the lookup, which may outlive this object

  const std::string host_;
  const Resolve resolve_;
  std::shared_ptr<Running> running_;  // null: no lookup runs
};

}  // namespace kvick::base
