#pragma once
// A timer that calls a function once unless it is set again or cleared first.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

namespace kvick::server {

class Deadline {
 public:
  explicit Deadline(boost::asio::any_io_executor executor) : timer_(std::move(executor)) {}

  // Replaces the current deadline. `what` must keep alive everything that it uses, including this
  // object.
  void set(std::chrono::milliseconds time, std::function<void()> what) {
    timer_.expires_after(time);  // cancels the current wait, unless its handler is already queued
    timer_.async_wait([this, mine = ++turn_, what = std::move(what)](auto error) {
      if (!error && mine == turn_) what();
    });
  }
  void clear() {
    ++turn_;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  uint64_t turn_ = 0;
};

}  // namespace kvick::server
