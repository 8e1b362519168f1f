#include "server/net/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>

#include "base/thread.h"
#include "server/net/connection.h"
#include "server/net/persist.h"

namespace kvick::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// How many connections beyond the limit get an error answer; further ones are closed without one.
constexpr size_t kMostRefused = 64;
// Pause after accepting failed, mostly for lack of file descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};

// Returns a function that posts to `context`, or does nothing once the server is gone, since
// threads of a service may outlive it.
template <typename Context>
Post post_to(const std::shared_ptr<Context>& context) {
  return [weak = std::weak_ptr(context)](std::function<void()> task) {
    if (const auto there = weak.lock()) asio::post(*there, std::move(task));
  };
}

void end(asio::thread_pool& threads) {
  threads.stop();
  threads.join();
}

}  // namespace

struct Server::State {
  explicit State(ServerOptions options);

  void accept();
  void on_accept(error_code error, tcp::socket socket);
  void take(tcp::socket socket);
  void take_signals();
  void wait_for_signal();
  void drain(std::chrono::milliseconds time);
  void stop();

  // Shared with the post functions of other threads, which may outlive the server.
  std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>(1);
  std::shared_ptr<asio::thread_pool> background, answers;
  Hub hub;
  bool stopped = false;
  tcp::acceptor acceptor{*io};
  asio::signal_set signals{*io};
  Deadline accept_pause{io->get_executor()}, drain_deadline{io->get_executor()};
  // Keeps run() from returning while it has no work.
  asio::executor_work_guard<asio::io_context::executor_type> work{io->get_executor()};
};

Server::State::State(ServerOptions options)
    : background(std::make_shared<asio::thread_pool>(options.background_threads)),
      answers(std::make_shared<asio::thread_pool>(options.answer_threads)) {
  hub.options = std::move(options);
  hub.post = post_to(io);
  hub.bodies = std::make_shared<BodyBudget>(hub.options.most_bodies_bytes);
  hub.on_empty = [this] {
    if (hub.draining() && !stopped) stop();
  };
}

// The server is useless unless it accepts, so this retries while memory is short.
void Server::State::accept() {
  try_until_done([this] {
    acceptor.async_accept(
        [this](error_code error, tcp::socket socket) { on_accept(error, std::move(socket)); });
  });
}

void Server::State::on_accept(error_code error, tcp::socket socket) {
  if (!acceptor.is_open()) return;
  if (error) {
    try_until_done([this] { accept_pause.set(kAcceptPause, [this] { accept(); }); });
    return;
  }
  try {
    take(std::move(socket));
  } catch (const std::exception&) {  // the client's connection is closed
    hub.counters.open = hub.connections.size();
  }
  accept();
}

void Server::State::take(tcp::socket socket) {
  const size_t most = hub.options.most_connections;
  const bool full = hub.connections.size() >= most;
  if (full) ++hub.counters.refused;
  if (hub.connections.size() < most + kMostRefused) {
    const auto connection = std::make_shared<Connection>(std::move(socket), hub);
    hub.connections.insert(connection);
    if (!hub.draining()) ++hub.awaited;
    hub.counters.open = hub.connections.size();
    if (full) {
      connection->refuse();
    } else {
      ++hub.counters.accepted;
      connection->start();
    }
  }
}

void Server::State::take_signals() {
  signals.add(SIGINT);
  signals.add(SIGTERM);
  wait_for_signal();
}

void Server::State::wait_for_signal() {
  signals.async_wait([this](error_code error, int) {
    if (error) return;
    if (hub.draining()) return stop();
    drain(hub.options.drain_time);
    wait_for_signal();
  });
}

void Server::State::drain(std::chrono::milliseconds time) {
  if (hub.draining()) return;
  hub.counters.draining = true;
  if (hub.options.on_drain) hub.options.on_drain();
  drain_deadline.set(time, [this] { stop(); });
  const auto all = hub.connections;  // a copy, because ended connections remove themselves
  for (const auto& connection : all) connection->drain();
  if (hub.awaited == 0) stop();
}

void Server::State::stop() {
  hub.counters.draining = stopped = true;
  error_code ignored;
  acceptor.close(ignored);
  accept_pause.clear();
  signals.clear(ignored);  // restores the default, so the next signal ends the program
  const auto all = hub.connections;
  for (const auto& connection : all) connection->drop();
  io->stop();
}

Server::Server(ServerOptions options) {
  try {
    state_ = std::make_unique<State>(std::move(options));
  } catch (const boost::system::system_error& error) {
    throw base::no_thread(error.code(), "requests");
  }
}

Server::~Server() {
  end(*state_->background);
  end(*state_->answers);
  // Tasks that never run hold connections, which use the hub in their destructors.
  state_->stop();
}

Threads Server::threads() {
  return {.network = state_->hub.post,
          .background = post_to(state_->background),
          .answers = post_to(state_->answers)};
}

const NetworkCounters& Server::counters() const { return state_->hub.counters; }

base::Result<uint16_t> Server::listen(Handler& handler) {
  state_->hub.handler = &handler;
  const ServerOptions& options = state_->hub.options;
  error_code error;
  tcp::resolver resolver(*state_->io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty())
    return base::fail("there is no host {} to listen on: {}", options.host, error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  KVICK_TRY_VOID(check(options.sites));
  state_->hub.sites = Sites(options.sites, options.host, endpoint.address().is_loopback());
  tcp::acceptor& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error)
    return base::fail("cannot listen on {} port {}: {}; choose another with --port", options.host,
                      options.port, error.message());
  return acceptor.local_endpoint().port();
}

void Server::hand_over(Handler& handler, bool signals) {
  asio::post(*state_->io, [state = state_.get(), &handler, signals] {
    state->hub.handler = &handler;
    if (signals) state->take_signals();
  });
}

void Server::run() {
  if (state_->hub.options.signals) state_->take_signals();
  state_->accept();
  // An exception ends only the task that threw it.
  while (!state_->stopped) {
    try {
      state_->io->run();
      break;
    } catch (const std::exception& error) {
      if (state_->hub.options.report) state_->hub.options.report(error.what());
    }
  }
  end(*state_->background);
  end(*state_->answers);
}

void Server::drain(std::chrono::milliseconds time) {
  asio::post(*state_->io, [state = state_.get(), time] { state->drain(time); });
}

void Server::stop() {
  asio::post(*state_->io, [state = state_.get()] { state->stop(); });
}

}  // namespace kvick::server
