#include "store/wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "base/clock.h"

namespace kvick::store {
namespace {

using base::Done;
using base::Result;
using base::Status;

// The longest wait between two looks at the stop flag.
constexpr double kPollSeconds = 0.05;

struct Socket {
  explicit Socket(int descriptor) : fd(descriptor) {}
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd;
};

std::string system_error(int error) { return std::generic_category().message(error); }

// Waits until the socket is ready for these events.
Status<> wait_for(int fd, short events, Until until) {
  while (true) {
    if (until.stop != nullptr && *until.stop) return base::fail("the program is ending");
    const double left = until.deadline - base::steady_seconds();
    if (left <= 0) return base::fail("it does not answer in time");
    pollfd one = {.fd = fd, .events = events, .revents = 0};
    const int milliseconds = static_cast<int>(std::min(left, kPollSeconds) * 1000) + 1;
    const int ready = ::poll(&one, 1, milliseconds);
    if (ready > 0) return Done{};
    if (ready < 0 && errno != EINTR) return base::fail("{}", system_error(errno));
  }
}

class TcpWire final : public Wire {
 public:
  explicit TcpWire(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}

  Status<> write(std::string_view bytes, Until until) override {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        KVICK_TRY_VOID(wait_for(socket_->fd, POLLOUT, until));
      } else if (errno != EINTR) {
        return base::fail("{}", system_error(errno));
      }
    }
    return Done{};
  }
  Result<size_t> read(char* bytes, size_t most, Until until) override {
    while (true) {
      const ssize_t n = ::recv(socket_->fd, bytes, most, 0);
      if (n > 0) return static_cast<size_t>(n);
      if (n == 0) return base::fail("it has closed the connection");
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        KVICK_TRY_VOID(wait_for(socket_->fd, POLLIN, until));
      } else if (errno != EINTR) {
        return base::fail("{}", system_error(errno));
      }
    }
  }

 private:
  std::unique_ptr<Socket> socket_;
};

std::string tls_error(std::string_view doing) {
  std::array<char, 256> text = {};
  const unsigned long error = ERR_get_error();
  if (error == 0) return fmt::format("TLS: {} failed", doing);
  ERR_error_string_n(error, text.data(), text.size());
  return fmt::format("TLS: {}: {}", doing, text.data());
}

// Blocks SIGPIPE on this thread: OpenSSL writes to sockets without MSG_NOSIGNAL, and a write to a
// store that has closed the connection must not end the program.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec now = {};
    if (sigismember(&before_, SIGPIPE) == 0)
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_ = {}, before_ = {};
};

class TlsWire final : public Wire {
 public:
  static Result<std::unique_ptr<Wire>> make(std::unique_ptr<Socket> socket,
                                            const StoreAddress& address, Until until) {
    std::unique_ptr<TlsWire> wire(new TlsWire(std::move(socket)));
    KVICK_TRY_VOID(wire->shake_hands(address, until));
    return std::unique_ptr<Wire>(std::move(wire));
  }
  ~TlsWire() override {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }

  Status<> write(std::string_view bytes, Until until) override {
    while (!bytes.empty()) {
      size_t n = 0;
      KVICK_TRY_VOID(repeat(
          "writing", [&] { return SSL_write_ex(ssl_, bytes.data(), bytes.size(), &n); }, until));
      bytes.remove_prefix(n);
    }
    return Done{};
  }
  Result<size_t> read(char* bytes, size_t most, Until until) override {
    size_t n = 0;
    KVICK_TRY_VOID(repeat(
        "reading", [&] { return SSL_read_ex(ssl_, bytes, most, &n); }, until));
    return n;
  }

 private:
  explicit TlsWire(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}

  Status<> shake_hands(const StoreAddress& address, Until until) {
    context_ = SSL_CTX_new(TLS_client_method());
    if (context_ == nullptr) return base::fail("{}", tls_error("a context"));
    SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    const int trusted = address.ca_file.empty()
                            ? SSL_CTX_set_default_verify_paths(context_)
                            : SSL_CTX_load_verify_file(context_, address.ca_file.c_str());
    if (trusted != 1) return base::fail("{}", tls_error("certificates of " + address.ca_file));
    ssl_ = SSL_new(context_);
    if (ssl_ == nullptr || SSL_set_fd(ssl_, socket_->fd) != 1 || !set_name(address.host))
      return base::fail("{}", tls_error("a connection"));
    return repeat(
        "the handshake", [&] { return SSL_connect(ssl_); }, until);
  }

  // Sets the host that the certificate must be for: an IP address or a name.
  bool set_name(const std::string& host) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str()) == 1) return true;
    return SSL_set1_host(ssl_, host.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl_, host.c_str()) == 1;
  }

  template <typename Call>
  Status<> repeat(std::string_view doing, const Call& call, Until until) {
    const NoSigpipe quiet;
    while (true) {
      ERR_clear_error();
      errno = 0;
      const int result = call();
      if (result == 1) return Done{};
      const int error = errno;
      switch (SSL_get_error(ssl_, result)) {
        case SSL_ERROR_WANT_READ:
          KVICK_TRY_VOID(wait_for(socket_->fd, POLLIN, until));
          break;
        case SSL_ERROR_WANT_WRITE:
          KVICK_TRY_VOID(wait_for(socket_->fd, POLLOUT, until));
          break;
        case SSL_ERROR_ZERO_RETURN:
          return base::fail("it has closed the connection");
        case SSL_ERROR_SYSCALL:
          if (error != 0) return base::fail("{}", system_error(error));
          return base::fail("it has closed the connection");
        default:
          return base::fail("{}", tls_error(doing));
      }
    }
  }

  std::unique_ptr<Socket> socket_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
};

Result<base::Addresses> look_up(base::HostLookup& lookup, Until until) {
  const double left = std::max(until.deadline - base::steady_seconds(), 0.0);
  try {
    return lookup.run(std::chrono::milliseconds(static_cast<int64_t>(left * 1000)), until.stop);
  } catch (const std::system_error& error) {  // no thread for the lookup
    return base::fail("{}", error.what());
  }
}

Result<std::unique_ptr<Socket>> connect_to(const addrinfo& address, Until until) {
  auto socket = std::make_unique<Socket>(::socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (socket->fd < 0) return base::fail("{}", system_error(errno));
  const int on = 1;
  ::setsockopt(socket->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(socket->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (::connect(socket->fd, address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return base::fail("{}", system_error(errno));
  KVICK_TRY_VOID(wait_for(socket->fd, POLLOUT, until));
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return base::fail("{}", system_error(error));
  return socket;
}

}  // namespace

Result<std::unique_ptr<Wire>> Wire::connect(const StoreAddress& address, base::HostLookup& lookup,
                                            Until until) {
  KVICK_TRY(const base::Addresses found, look_up(lookup, until));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  std::vector<std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>> owners;
  std::vector<addrinfo> all;
  for (const std::string& host : found) {
    addrinfo* one = nullptr;
    const int error =
        ::getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &one);
    if (error != 0) return base::fail("its address {}: {}", host, ::gai_strerror(error));
    owners.emplace_back(one, &::freeaddrinfo);
    all.push_back(*one);
  }
  for (size_t i = 0; i < all.size(); ++i)
    all[i].ai_next = i + 1 < all.size() ? &all[i + 1] : nullptr;
  return connect(all.data(), address, until);
}

Result<std::unique_ptr<Wire>> Wire::connect(const addrinfo* addresses, const StoreAddress& address,
                                            Until until) {
  size_t left = 0;
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) ++left;
  base::Error last = {"its name has no address"};
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next, --left) {
    const double now = base::steady_seconds();
    const double share = (until.deadline - now) / static_cast<double>(left);
    auto socket = connect_to(*one, {now + share, until.stop});
    if (!socket.ok()) {
      last = std::move(socket).error();
      continue;
    }
    if (address.tls) return TlsWire::make(*std::move(socket), address, until);
    return std::unique_ptr<Wire>(std::make_unique<TcpWire>(*std::move(socket)));
  }
  return last;
}

}  // namespace kvick::store
