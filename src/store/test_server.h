#pragma once
// A server for tests that keeps values as Redis does. A script can replace the answer to any
// command.

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

// The answer that replaces the usual one. close: closes the connection after the bytes.
struct Scripted {
  std::string bytes;
  bool close = false;
  bool stall = false;  // sends nothing more on this connection
};
using Script = std::function<std::optional<Scripted>(const Command&)>;

class TestServer {
 public:
  // Listens on this port of the loopback interface; 0: any free port.
  explicit TestServer(uint16_t port = 0);
  ~TestServer();
  uint16_t port() const { return port_; }

  void script(Script script);
  // Closes all connections; new ones are accepted.
  void drop_all();
  std::map<std::string, std::string> values() const;
  void change_values(const std::function<void(std::map<std::string, std::string>&)>& change);
  // Returns how many commands of this name have arrived.
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
