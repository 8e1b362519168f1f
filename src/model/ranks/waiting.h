#pragma once
// How a rank waits for others: at first it looks often, for what it waits for takes microseconds;
// then it leaves the core to others, and in the end it sleeps.

#include <functional>
#include <string>

#include "base/function_ref.h"

namespace kvick::model {

struct WaitingOptions {
  double seconds = 30;  // time limit for a rank that computes; then it counts as lost
  // Why another rank is known to be gone, or empty; asked about a hundred times a second.
  std::function<std::string()> gone;
  // Called before RankLost is thrown, with what it says.
  std::function<void(const std::string& why)> on_lost;
};

class Waiting {
 public:
  explicit Waiting(WaitingOptions options) : options_(std::move(options)) {}
  // Returns once `ready` is true. Throws RankLost if a rank is gone, or after the time.
  void until(base::FunctionRef<bool()> ready) const { wait(ready, options_.seconds); }
  // The same without a time limit, for waits in which the other ranks may stay silent.
  void idle_until(base::FunctionRef<bool()> ready) const { wait(ready, 0); }

 private:
  void wait(base::FunctionRef<bool()> ready, double seconds) const;
  [[noreturn]] void lose(const std::string& why) const;
  WaitingOptions options_;
};

}  // namespace kvick::model
