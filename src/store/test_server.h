#pragma once
// A store for tests: keeps values as Redis does, unless a script says that it answers a command
// otherwise.

#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace kvick::store::test {

using Command = std::vector<std::string>;

// How a command is answered instead. close: after the bytes.
struct Scripted {
  std::string bytes;
  bool close = false;
  bool stall = false;  // says nothing more on this connection
};
using Script = std::function<std::optional<Scripted>(const Command&)>;

class TestServer {
 public:
  // On that port of loopback; 0: any that is free.
  explicit TestServer(uint16_t port = 0);
  ~TestServer();
  uint16_t port() const { return port_; }

  void script(Script script);
  // Closes all connections; new ones are taken.
  void drop_all();
  std::map<std::string, std::string> values() const;
  void change_values(const std::function<void(std::map<std::string, std::string>&)>& change);
  // How often a command came.
  size_t count(const std::string& name) const;

 private:
  void accept_all();
  void serve(int fd);
  bool answer(int fd, const Command& command);
  std::string answer_of(const Command& command);

  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  Script script_;
  std::map<std::string, std::string> values_;
  std::map<std::string, size_t> counts_;
  std::vector<int> open_;
  bool stopping_ = false;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace kvick::store::test
