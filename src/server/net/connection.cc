#include "server/net/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "server/net/persist.h"

namespace kvick::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// Limit on the bytes of further requests that are read while one is answered. If a client sends
// more, reading stops, and a closed connection is noticed only by the next write.
constexpr size_t kMostAhead = 64 << 10;
// Limit on the bytes that are discarded after the last answer.
constexpr size_t kMostThrownAway = 16 << 20;

// The handler's way back to a request of a connection that may have ended meanwhile.
class ConnectionReply final : public Reply {
 public:
  ConnectionReply(std::weak_ptr<Connection> connection, uint64_t number, Post post)
      : connection_(std::move(connection)), number_(number), post_(std::move(post)) {}
  ~ConnectionReply() override {
    // The destructor may run on any thread.
    try_until_done([&] {
      post_([connection = connection_, number = number_] {
        if (const auto there = connection.lock()) there->give_none(number);
      });
    });
  }
  void send(HttpResponse response) override {
    if (const auto there = connection_.lock()) there->send(number_, std::move(response));
  }
  void begin_events(StreamHead head) override {
    if (const auto there = connection_.lock()) there->begin_events(number_, head);
  }
  void event(std::string_view bytes) override {
    if (const auto there = connection_.lock()) there->event(number_, bytes);
  }
  void end_events() override {
    if (const auto there = connection_.lock()) there->end_events(number_);
  }
  void on_gone(std::function<void()> gone) override {
    if (const auto there = connection_.lock())
      there->on_gone(number_, std::move(gone));
    else
      gone();
  }

 private:
  std::weak_ptr<Connection> connection_;
  uint64_t number_;
  Post post_;
};

ApiError broke() { return {.status = 500, .message = "the server failed on this request"}; }

std::string address_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto client = socket.remote_endpoint(error);
  return error ? "" : client.address().to_string();
}

// Asks the system to end the connection of a client that vanished without closing it, as a machine
// without power does: no byte was acknowledged for `time`, or the client's system does not answer
// to probes. Otherwise a stream would be noticed to be lost after a quarter of an hour, and a
// client that waits for its answer never.
void notice_vanished(asio::ip::tcp::socket& socket, std::chrono::milliseconds time) {
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(socket.native_handle(), level, name, &value, sizeof value);
  };
  const auto seconds = [](std::chrono::milliseconds part) {
    return std::max(1, static_cast<int>(std::chrono::ceil<std::chrono::seconds>(part).count()));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds(time / 2));
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds(time / 6));
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(time.count()));
}

// Bytes of a request's head that stay until the request is submitted. Requests without a body are
// answered at once, also while other requests take all of the budget.
size_t kept_bytes(const HttpRequest& head) {
  if (head.method == "GET" || head.method == "HEAD") return 0;
  size_t bytes = head.method.size() + head.target.size() + head.authorization.size() +
                 head.content_type.size() + head.id.size() + head.trace_parent.size();
  for (const auto& [name, value] : head.choices)
    bytes += sizeof(Headers::value_type) + name.size() + value.size();
  return bytes;
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Hub& hub)
    : socket_(std::move(socket)),
      hub_(hub),
      read_deadline_(socket_.get_executor()),
      write_deadline_(socket_.get_executor()),
      backlog_deadline_(socket_.get_executor()),
      heartbeat_(socket_.get_executor()),
      address_(address_of(socket_)),
      awaited_(!hub.draining()) {}

void Connection::start() {
  ErrorCode ignored;
  // Each token is its own packet: Nagle's algorithm would delay it.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  notice_vanished(socket_, hub_.options.gone_time);
  guarded([&] {
    read_deadline_.set(hub_.options.head_time, [self = shared_from_this()] { self->drop(); });
    read();
  });
}

void Connection::refuse() {
  guarded([&] {
    end_with({.status = 503,
              .message = "there are too many connections; try again",
              .headers = {{"Retry-After", "1"}}});
    read();
  });
}

void Connection::drain() {
  if (state_ == State::kIdle && unread_bytes() == 0) drop();
}

void Connection::drop() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  read_deadline_.clear();
  write_deadline_.clear();
  backlog_deadline_.clear();
  heartbeat_.clear();
  ErrorCode ignored;
  socket_.close(ignored);
  const auto self = shared_from_this();  // the hub's pointer may be the last
  hub_.connections.erase(self);
  hub_.counters.open = hub_.connections.size();
  if (awaited_) --hub_.awaited;
  try {
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
  } catch (const std::exception&) {  // the work that `gone` would have cancelled runs to its end
  }
  if (awaited_ && hub_.awaited == 0 && hub_.on_empty) hub_.on_empty();
}

bool Connection::wants_input() const {
  if (state_ == State::kClosed || ended_) return false;
  return state_ == State::kClosing || input_.size() < kMostAhead;
}

// Reads even while a request is answered, because only reading shows that the client has gone.
void Connection::read() {
  if (reading_ || !wants_input()) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](ErrorCode error, size_t bytes) {
                            self->reading_ = false;
                            self->guarded([&] { self->on_read(error, bytes); });
                          });
}

void Connection::on_read(ErrorCode error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error == asio::error::eof && state_ != State::kBusy && unread_bytes() > 0) {
    ended_ = true;  // the client may still read the rest of the output
    begin_closing();
    return;
  }
  if (error) return drop();
  if (state_ == State::kClosing) {
    thrown_away_ += bytes;
    if (thrown_away_ > kMostThrownAway) return drop();
  } else {
    input_.append(chunk_.data(), bytes);
    parse();
  }
  read();
}

// Parses pipelined requests one at a time, and pauses while too many bytes of answers are unread.
void Connection::parse() {
  if (parsing_) return;
  parsing_ = true;
  while (!input_.empty() && unread_bytes() <= hub_.options.most_unread_bytes && parse_some()) {
  }
  parsing_ = false;
}

// Returns false if nothing more can be parsed now.
bool Connection::parse_some() {
  if (state_ == State::kIdle) begin_request();
  if (state_ != State::kHead && state_ != State::kBody) return false;
  ErrorCode error;
  const size_t used = parser_->put(asio::const_buffer(input_.data(), input_.size()), error);
  input_.erase(0, used);
  if (error && error != http::error::need_more) {
    refuse_request(error);
    return false;
  }
  if (state_ == State::kHead && parser_->is_header_done()) take_head();
  if (state_ != State::kHead && state_ != State::kBody) return state_ == State::kIdle;
  if (state_ == State::kBody && !take_body()) return false;
  if (parser_->is_done()) {
    dispatch();
    return true;
  }
  // The parser sets no limit on the length of an unfinished line, so this does.
  if (error && input_.size() >= kMostAhead) refuse_request(http::error::header_limit);
  return !error;
}

void Connection::begin_request() {
  // Old clients send an extra line end after a body.
  input_.erase(0, std::min(input_.find_first_not_of("\r\n"), input_.size()));
  if (input_.empty()) return;
  parser_.emplace();
  body_share_ = BodyShare(hub_.bodies);
  head_ = {};
  framing_ = {};
  parser_->header_limit(static_cast<uint32_t>(hub_.options.most_head_bytes));
  parser_->body_limit(hub_.options.most_body_bytes);
  state_ = State::kHead;
  read_deadline_.set(hub_.options.head_time, [self = shared_from_this()] { self->time_out(); });
}

// Returns false, after refusing the request, if all requests together exceed the budget.
bool Connection::take_body() {
  if (body_share_.grow_to(kept_bytes(head_) + parser_->get().body().size())) return true;
  end_with({.status = 503,
            .message = fmt::format("the server is already reading {} bytes of requests, the most "
                                   "that it takes at once; try again",
                                   hub_.bodies->most_bytes()),
            .headers = {{"Retry-After", "1"}}});
  return false;
}

void Connection::dispatch() {
  read_deadline_.clear();
  state_ = State::kBusy;
  begun_ = false;
  ++number_;
  ++hub_.counters.requests;
  // Read before the body, so without the trailers of a chunked body.
  HttpRequest request = std::exchange(head_, {});
  head_.target = request.target;  // says which form an error has that no handler gives
  request.body = std::move(parser_->get().body());
  request.share = std::exchange(body_share_, {});
  parser_.reset();
  framing_.keep_alive = framing_.keep_alive && !hub_.draining();
  hub_.handler->handle(std::move(request),
                       std::make_shared<ConnectionReply>(weak_from_this(), number_, hub_.post));
}

void Connection::refuse_request(ErrorCode error) {
  ++hub_.counters.malformed;
  if (state_ == State::kHead) head_ = read_head();  // its path says which form the error has
  if (error == http::error::header_limit)
    return end_with(
        {.status = 431,
         .message = fmt::format("the request's head is longer than {} bytes; send fewer "
                                "or shorter headers",
                                hub_.options.most_head_bytes)});
  if (error == http::error::body_limit)
    return end_with(
        {.status = 413,
         .message = fmt::format("the request's body is longer than {} bytes; send less, "
                                "or start the server with a larger --max-body",
                                hub_.options.most_body_bytes)});
  end_with({.message = fmt::format("the request cannot be read: {}; this port takes HTTP/1.1 and "
                                   "1.0, without TLS",
                                   error.message())});
}

void Connection::time_out() {
  ++hub_.counters.timed_out;
  guarded([&] {
    if (state_ == State::kHead) head_ = read_head();  // as far as it has come
    end_with({.status = 408, .message = "the request was not complete in time; send it again"});
  });
}

void Connection::break_off() noexcept {
  const bool answers = !begun_ && (state_ == State::kHead || state_ == State::kBody ||
                                   (state_ == State::kBusy && unread_bytes() == 0));
  bool told = false;
  try {
    told = answers && try_until_done([&] { end_with(broke()); });
  } catch (const std::exception&) {
  }
  if (!told) drop();
}

}  // namespace kvick::server
