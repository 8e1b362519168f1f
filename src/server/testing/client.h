#pragma once
// A client that sends and receives raw bytes, for tests with real sockets.

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace kvick::server {

class Client {
 public:
  // receive_bytes: size of the socket's receive buffer, for tests of slow readers; 0: the default.
  explicit Client(uint16_t port, int receive_bytes = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    const timeval patience = {10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { hang_up(); }
  Client(Client&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        unread_(std::move(other.unread_)) {}
  Client& operator=(Client&&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // From now on the client's system drops all packets that come, and so acknowledges nothing, as if
  // its machine had lost power. Returns false if the system refuses that.
  bool vanish() {
    sock_filter drop = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
    const sock_fprog program = {.len = 1, .filter = &drop};
    return setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
  }
  // Closes the sending side.
  void send_no_more() { shutdown(socket_, SHUT_WR); }
  void post(std::string_view path, std::string_view body, std::string_view headers = "") {
    send(
        fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Content-Length: {}\r\n{}\r\n{}",
                    path, body.size(), headers, body));
  }
  void get(std::string_view path, std::string_view headers = "") {
    send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers));
  }
  // Returns all bytes up to and including the mark, or all bytes if the connection ends before.
  std::string read_until(std::string_view mark) {
    size_t at = 0;
    while ((at = unread_.find(mark)) == std::string::npos)
      if (!receive()) return std::exchange(unread_, "");
    return take(at + mark.size());
  }
  std::string read_to_end() {
    while (receive()) {
    }
    return std::exchange(unread_, "");
  }
  struct Answer {
    int status = 0;
    std::string head, body;
  };
  // Reads one answer that has a Content-Length.
  Answer answer() {
    Answer answer = {.head = read_until("\r\n\r\n")};
    if (answer.head.size() > 12) answer.status = std::atoi(answer.head.c_str() + 9);
    const size_t length = answer.head.find("Content-Length: ");
    if (length == std::string::npos) return answer;
    const auto bytes = static_cast<size_t>(std::atol(answer.head.c_str() + length + 16));
    while (unread_.size() < bytes && receive()) {
    }
    answer.body = take(std::min(bytes, unread_.size()));
    return answer;
  }
  // Returns whether unread bytes have arrived.
  bool has_bytes() const {
    char byte = 0;
    return !unread_.empty() || recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  // Returns whether the server closes the connection within 10 s.
  bool ended() {
    while (receive()) {
    }
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }
  void hang_up() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

 private:
  std::string take(size_t bytes) {
    std::string taken = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return taken;
  }
  bool receive() {
    char bytes[4096];
    const ssize_t n = recv(socket_, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    unread_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  int socket_;
  bool connected_ = false;
  std::string unread_;
};

}  // namespace kvick::server
