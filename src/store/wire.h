#pragma once
// Bytes to and from a store, over TCP or TLS. Every call ends at its deadline, or soon after the
// stop flag is set. For one thread.

#include <atomic>
#include <memory>
#include <string_view>

#include "store/store_url.h"

#include "base/network/host_lookup.h"
#include "base/result.h"

struct addrinfo;  // of <netdb.h>

namespace kvick::store {

// When a call gives up: at a time of base::steady_seconds(), or when the flag, which another thread
// may set, is true.
struct Until {
  double deadline = 0;
  const std::atomic<bool>* stop = nullptr;
};

class Wire {
 public:
  virtual ~Wire() = default;
  // The error of every call is one sentence, after which only the destructor may be called.
  // lookup: finds the addresses of address.host. If that takes longer than the deadline, the next
  // call with the same lookup waits for its result.
  static base::Result<std::unique_ptr<Wire>> connect(const StoreAddress& address,
                                                     base::HostLookup& lookup, Until until);
  // The same for a host whose addresses are known: tries them in turn. Each has an equal share of
  // the time that is left, so that one that does not answer leaves time for the next.
  static base::Result<std::unique_ptr<Wire>> connect(const addrinfo* addresses,
                                                     const StoreAddress& address, Until until);
  virtual base::Status<> write(std::string_view bytes, Until until) = 0;
  // Reads at least one byte, at most `most`; returns the number of bytes read.
  virtual base::Result<size_t> read(char* bytes, size_t most, Until until) = 0;
};

}  // namespace kvick::store
