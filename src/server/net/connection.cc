#include "server/net/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>

#include "server/net/persist.h"
#include "server/request/fields.h"

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

constexpr std::string_view kChoicePrefix = "x-kvick-";
// The SGLang gateway forwards unknown headers only if they begin with this prefix:
// x-request-id-kvick-kv is read as x-kvick-kv.
constexpr std::string_view kHandedOnPrefix = "x-request-id-";

Headers choices_of(const http::fields& fields) {
  Headers choices;
  for (const auto& field : fields) {
    std::string name(field.name_string().data(), field.name_string().size());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (name.starts_with(kHandedOnPrefix))
      name = fmt::format("x-{}", std::string_view(name).substr(kHandedOnPrefix.size()));
    if (!name.starts_with(kChoicePrefix)) continue;
    choices.emplace_back(std::move(name), std::string(field.value().data(), field.value().size()));
  }
  return choices;
}

std::string text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Anthropic's clients send their key in a header of its own.
std::string credentials_of(const http::fields& fields) {
  std::string given = text_of(fields[http::field::authorization]);
  if (!given.empty()) return given;
  const std::string key = text_of(fields["x-api-key"]);
  return key.empty() ? "" : "Bearer " + key;
}

ApiError broke() { return {.status = 500, .message = "the server failed on this request"}; }

// Longer ids would fill logs.
constexpr size_t kMostIdBytes = 128;

std::string address_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto client = socket.remote_endpoint(error);
  return error ? "" : client.address().to_string();
}

constexpr const char* kContinue = "100-continue";

// Returns the error of a head that announces a body which this server cannot read.
std::optional<ApiError> refused_body(const http::fields& fields) {
  const std::string expected = text_of(fields[http::field::expect]);
  if (!expected.empty() && !boost::beast::iequals(expected, kContinue))
    return ApiError{
        .status = 417,
        .message = fmt::format("the header Expect is {}, but this server knows only {}; "
                               "leave it out",
                               in_quotes(expected), kContinue),
        .code = "unknown_expectation"};
  const std::string coding = text_of(fields[http::field::content_encoding]);
  if (coding.empty() || boost::beast::iequals(coding, "identity")) return std::nullopt;
  return ApiError{
      .status = 415,
      .message = fmt::format("the body has the Content-Encoding {}, but this server reads no "
                             "compressed bodies; send it as it is",
                             in_quotes(coding)),
      .code = "unsupported_encoding",
      .headers = {{"Accept-Encoding", "identity"}}};
}

bool is_good_id(std::string_view id) {
  return id.size() <= kMostIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
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
  read_deadline_.set(hub_.options.head_time, [self = shared_from_this()] { self->drop(); });
  read();
}

void Connection::refuse() {
  end_with({.status = 503,
            .message = "there are too many connections; try again",
            .headers = {{"Retry-After", "1"}}});
  read();
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

HttpRequest Connection::read_head() const {
  const auto& got = parser_->get();
  return {.method = text_of(got.method_string()),
          .target = text_of(got.target()),
          .authorization = credentials_of(got),
          .content_type = text_of(got[http::field::content_type]),
          .body = {},
          .choices = choices_of(got),
          .share = {},
          .address = address_,
          .id = request_id(),
          .trace_parent = text_of(got["traceparent"])};
}

std::string Connection::request_id() const {
  const std::string given = text_of(parser_->get()["X-Request-Id"]);
  return given.empty() ? made_id_ : given;
}

// Refuses forbidden or impossible requests after their head, before their body is received.
void Connection::take_head() {
  made_id_ = fmt::format("{:08x}{:08x}", hub_.options.id_seed, ++hub_.made_ids);
  // Without chunked, the end of the body is unknown, and the rest of it would be taken for the next
  // request (RFC 9112, 6.1).
  if (parser_->get().count(http::field::transfer_encoding) > 0 && !parser_->chunked()) {
    ++hub_.counters.malformed;
    return end_with({.message = "Transfer-Encoding must end with chunked; send Content-Length or a "
                                "chunked body"});
  }
  head_ = read_head();
  framing_ = {.http_1_1 = parser_->get().version() >= 11,
              .keep_alive = parser_->get().keep_alive() && !hub_.draining(),
              .without_body = head_.method == "HEAD"};
  const std::optional<HttpResponse> answer = answer_to_head(head_);
  if (!answer) return begin_body();
  ++hub_.counters.requests;
  // The next request must not begin inside a body that nobody reads.
  framing_.keep_alive = framing_.keep_alive && parser_->is_done();
  parser_.reset();
  write(framed(*answer, framing_));
  finish_answer();
}

std::optional<HttpResponse> Connection::answer_to_head(const HttpRequest& head) {
  const auto& got = parser_->get();
  const std::string origin = text_of(got[http::field::origin]);
  if (!is_good_id(head.id))
    return hub_.handler->error_of(
        head, bad_field("X-Request-Id",
                        "the header X-Request-Id must be up to {} printable characters without "
                        "spaces",
                        kMostIdBytes));
  // Request-Id is for Anthropic's clients.
  framing_.lines = fmt::format("X-Request-Id: {0}\r\nRequest-Id: {0}\r\n", head.id);
  if (const auto allowed = hub_.sites.check(text_of(got[http::field::host]), origin); !allowed.ok())
    return hub_.handler->error_of(head, allowed.error());
  framing_.lines += hub_.sites.answer_lines(origin);
  const Preflight asked = {.method = text_of(got[http::field::access_control_request_method]),
                           .headers = text_of(got[http::field::access_control_request_headers])};
  if (head.method == "OPTIONS" && !origin.empty() && !asked.method.empty())
    return preflight_answer(asked);
  if (head.method == "OPTIONS" && head.target == "*") return HttpResponse{.status = 204};
  if (auto refused = hub_.handler->refuses(head)) return refused;
  const std::optional<ApiError> refused = refused_body(got);
  return refused ? std::optional(hub_.handler->error_of(head, *refused)) : std::nullopt;
}

void Connection::begin_body() {
  state_ = State::kBody;
  parser_->eager(true);
  read_deadline_.set(hub_.options.body_time, [self = shared_from_this()] { self->time_out(); });
  const auto expect = parser_->get().find(http::field::expect);
  // HTTP/1.0 has no 100 Continue (RFC 9110, 10.1.1).
  if (framing_.http_1_1 && !parser_->is_done() && expect != parser_->get().end() &&
      boost::beast::iequals(expect->value(), kContinue))
    write("HTTP/1.1 100 Continue\r\n\r\n");
}

// Returns false, after refusing the request, if all bodies together exceed the budget.
bool Connection::take_body() {
  if (body_share_.grow_to(parser_->get().body().size())) return true;
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
  request.body = std::move(parser_->get().body());
  request.share = std::exchange(body_share_, {});
  parser_.reset();
  framing_.keep_alive = framing_.keep_alive && !hub_.draining();
  hub_.handler->handle(std::move(request),
                       std::make_shared<ConnectionReply>(weak_from_this(), number_, hub_.post));
}

void Connection::refuse_request(ErrorCode error) {
  ++hub_.counters.malformed;
  if (error == http::error::header_limit)
    return end_with({.status = 431,
                     .message = fmt::format("the request's head is longer than {} bytes",
                                            hub_.options.most_head_bytes)});
  if (error == http::error::body_limit) {
    head_ = read_head();  // Content-Length alone may exceed the limit, before take_head()
    return end_with({.status = 413,
                     .message = fmt::format("the request's body is longer than {} bytes",
                                            hub_.options.most_body_bytes)});
  }
  end_with({.message = fmt::format("this is not HTTP: {}", error.message())});
}

void Connection::time_out() {
  ++hub_.counters.timed_out;
  guarded([&] {
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
