#pragma once
// A time at which something happens unless it is put off.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

namespace kvick::server {

class Deadline {
 public:
  explicit Deadline(boost::asio::any_io_executor executor) : timer_(std::move(executor)) {}

  // Replaces what was set before. what must keep alive whatever it uses, this deadline too.
  void set(std::chrono::milliseconds time, std::function<void()> what) {
    timer_.expires_after(time);  // cancels a wait, unless its handler is on its way already
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
