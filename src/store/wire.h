#pragma once
// Bytes to and from a store, over TCP or TLS. All calls end by a deadline, or soon after the stop
// flag is set. For one thread.

#include <atomic>
#include <memory>
#include <string_view>

#include "store/store_url.h"

#include "base/result.h"

namespace kvick::store {

// When to give up: a moment of base::steady_seconds(), and a flag that may be set meanwhile.
struct Until {
  double deadline = 0;
  const std::atomic<bool>* stop = nullptr;
};

class Wire {
 public:
  virtual ~Wire() = default;
  // Errors of all: one sentence, after which nothing but the destructor may be called. Looking up
  // the host's name takes what time the system's resolver takes.
  static base::Result<std::unique_ptr<Wire>> connect(const StoreAddress& address, Until until);
  virtual base::Status<> write(std::string_view bytes, Until until) = 0;
  // Reads at least one byte, at most `most`; returns the number of bytes read.
  virtual base::Result<size_t> read(char* bytes, size_t most, Until until) = 0;
};

}  // namespace kvick::store
