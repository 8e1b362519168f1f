#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "base/network/host_lookup.h"

namespace kvick::base {

// Looks up names only after open() was called: every one is 127.0.0.1. Threads that wait in it may
// outlive a test.
class HungResolver {
 public:
  HungResolver() : opened_(opens_.get_future().share()) {}
  Resolve resolve() {
    return [opened = opened_, calls = calls_](const std::string&) -> Result<Addresses> {
      ++*calls;
      opened.wait();
      return Addresses{"127.0.0.1"};
    };
  }
  void open() { opens_.set_value(); }
  int calls() const { return *calls_; }

 private:
  std::promise<void> opens_;
  std::shared_future<void> opened_;
  std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace kvick::base
