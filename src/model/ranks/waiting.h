#pragma once
// How a rank waits for others. At first it spins, because most waits take microseconds. Then it
// yields the core to other threads, and finally it sleeps.

#include <functional>
#include <string>

#include "base/function_ref.h"

namespace kvick::model {

struct WaitingOptions {
  double seconds = 30;  // time limit for a rank that computes; after that it counts as lost
  // Returns why another rank is known to be gone, or an empty string; called about 100 times per
  // second.
  std::function<std::string()> gone;
  // Called before RankLost is thrown, with its message.
  std::function<void(const std::string& why)> on_lost;
};

class Waiting {
 public:
  explicit Waiting(WaitingOptions options) : options_(std::move(options)) {}
  // Returns once ready() is true. Throws RankLost if a rank is gone or the time limit is exceeded.
  void until(base::FunctionRef<bool()> ready) const { wait(ready, options_.seconds); }
  // Does the same without a time limit, for waits in which the other ranks may stay silent.
  void idle_until(base::FunctionRef<bool()> ready) const { wait(ready, 0); }
  // Throws RankLost after calling on_lost.
  [[noreturn]] void lose(const std::string& why) const;

 private:
  void wait(base::FunctionRef<bool()> ready, double seconds) const;
  WaitingOptions options_;
};

}  // namespace kvick::model
