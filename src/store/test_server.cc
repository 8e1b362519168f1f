#include "store/test_server.h"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

namespace kvick::store::test {
namespace {

// Parses commands from a connection.
class Input {
 public:
  explicit Input(int fd) : fd_(fd) {}
  std::optional<std::string> line() {
    size_t at = 0;
    while ((at = buffer_.find("\r\n")) == std::string::npos)
      if (!more()) return std::nullopt;
    std::string text = buffer_.substr(0, at);
    buffer_.erase(0, at + 2);
    return text;
  }
  std::optional<std::string> bytes(size_t count) {
    while (buffer_.size() < count)
      if (!more()) return std::nullopt;
    std::string text = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return text;
  }
  std::optional<Command> command() {
    const auto head = line();
    if (!head || head->empty() || (*head)[0] != '*') return std::nullopt;
    Command command;
    for (size_t i = std::stoul(head->substr(1)); i > 0; --i) {
      const auto size = line();
      if (!size) return std::nullopt;
      auto part = bytes(std::stoul(size->substr(1)) + 2);
      if (!part) return std::nullopt;
      part->resize(part->size() - 2);
      command.push_back(std::move(*part));
    }
    return command;
  }

 private:
  bool more() {
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  int fd_;
  std::string buffer_;
};

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

TestServer::TestServer(uint16_t port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  KVICK_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                  ::listen(listener_, 64) == 0 &&
                  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0,
              "no port for a test's server: {}", errno);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

TestServer::~TestServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  drop_all();
  for (std::thread& thread : threads_) thread.join();
}

void TestServer::accept_all() {
  while (true) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      ::close(fd);
      return;
    }
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void TestServer::serve(int fd) {
  Input input(fd);
  while (const auto command = input.command())
    if (!answer(fd, *command)) break;
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

bool TestServer::answer(int fd, const Command& command) {
  std::optional<Scripted> scripted;
  {
    const std::lock_guard lock(mutex_);
    ++counts_[command[0]];
    if (script_) scripted = script_(command);
  }
  if (!scripted) return send_all(fd, answer_of(command));
  if (!send_all(fd, scripted->bytes) || scripted->close) return false;
  char byte = 0;
  if (scripted->stall)
    while (::recv(fd, &byte, 1, 0) > 0) {
    }
  return !scripted->stall;
}

std::string TestServer::answer_of(const Command& command) {
  const std::lock_guard lock(mutex_);
  const std::string& name = command[0];
  if (name == "PING") return "+PONG\r\n";
  if (name == "AUTH" || name == "SELECT") return "+OK\r\n";
  if (name == "TOUCH") return values_.contains(command[1]) ? ":1\r\n" : ":0\r\n";
  if (name == "SET") {
    values_[command[1]] = command[2];
    return "+OK\r\n";
  }
  const auto at = values_.find(command.at(1));
  if (name != "GETRANGE") return "-ERR unknown command\r\n";
  const std::string value =
      at == values_.end() ? "" : at->second.substr(0, std::stoul(command.at(3)) + 1);
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

void TestServer::script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void TestServer::drop_all() {
  const std::lock_guard lock(mutex_);
  for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
}

std::map<std::string, std::string> TestServer::values() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

void TestServer::change_values(
    const std::function<void(std::map<std::string, std::string>&)>& change) {
  const std::lock_guard lock(mutex_);
  change(values_);
}

size_t TestServer::count(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = counts_.find(name);
  return at == counts_.end() ? 0 : at->second;
}

}  // namespace kvick::store::test
