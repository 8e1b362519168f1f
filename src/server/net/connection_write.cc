#include <algorithm>
#include <boost/asio/buffer.hpp>

#include "server/net/connection.h"

namespace kvick::server {
namespace {

namespace asio = boost::asio;

// How long input is still read and discarded after the last answer. Closing at once would reset the
// connection, and the client might never see the answer.
constexpr std::chrono::milliseconds kLinger{2'000};
// Larger bodies are moved, not copied behind the head. Smaller ones are copied, so that head and
// body go out together.
constexpr size_t kMostCopied = 64 << 10;
// Longer buffers are freed once they are written: the connection may then be idle for long.
constexpr size_t kMostKept = 64 << 10;

}  // namespace

// Calls of a Reply come from tasks of the network, not from a connection's own handlers. If one
// throws, its connection must end: otherwise the stream would go on with an event missing.
void Connection::send(uint64_t number, HttpResponse response) {
  if (answers(number)) guarded([&] { write_answer(std::move(response)), finish_answer(); });
}

void Connection::write_answer(HttpResponse response) {
  if (framing_.without_body || response.body.size() <= kMostCopied) {
    write(framed(response, framing_));
  } else {
    write(framed_head(response, framing_));
    if (pending_.empty())
      pending_ = std::move(response.body);
    else
      pending_ += response.body;
  }
}

// A stream that has begun can report a failure only by closing the connection.
void Connection::give_none(uint64_t number) {
  if (!answers(number)) return;
  if (begun_) return drop();
  guarded([&] {
    send(number,
         hub_.handler->error_of(head_, {.status = 500, .message = "the server gave no answer"}));
  });
}

void Connection::begin_events(uint64_t number, const StreamHead& head) {
  if (!answers(number)) return;
  begun_ = true;
  longest_events_.begin(head.long_events);
  // HTTP/1.0 streams end with the connection.
  framing_.keep_alive = framing_.keep_alive && framing_.http_1_1;
  guarded([&] {
    write(stream_head(framing_, head));
    beats_ = head.type == kEventStream;
    await_event();
  });
}

void Connection::await_event() {
  if (!beats_ || hub_.options.heartbeat_time.count() <= 0) return;
  heartbeat_.set(hub_.options.heartbeat_time,
                 [self = shared_from_this()] { self->guarded([&] { self->beat(); }); });
}

// Writes a heartbeat unless the client still has unread bytes.
void Connection::beat() {
  if (state_ != State::kBusy || !begun_) return;
  if (unread_bytes() == 0) write(stream_chunk(kSseHeartbeat, framing_));
  await_event();
}

void Connection::drop_slow() {
  ++hub_.counters.slow;
  drop();
}

void Connection::event(uint64_t number, std::string_view bytes) {
  if (!answers(number) || !begun_) return;
  // An event may be longer than most_unread_bytes, such as the logprobs of a long prompt. No client
  // can have read it before the next event comes, so the limit is on the bytes beside the longest
  // events. All together stay below most_unread_bytes and StreamHead::long_events events, however
  // many are that long.
  guarded([&] {
    const size_t longest = longest_events_.add(bytes.size());
    if (unread_bytes() + bytes.size() > hub_.options.most_unread_bytes + longest)
      return drop_slow();
    write(stream_chunk(bytes, framing_));
    await_event();
  });
}

void Connection::end_events(uint64_t number) {
  if (answers(number) && begun_) guarded([&] { write(stream_end(framing_)), finish_answer(); });
}

void Connection::on_gone(uint64_t number, std::function<void()> gone) {
  if (answers(number))
    gone_ = std::move(gone);
  else if (state_ == State::kClosed || number != number_)
    gone();
}

void Connection::write(std::string_view bytes) {
  pending_ += bytes;
  write_some();
}

// Limits how long a client may leave more than most_unread_bytes unread. The client of a stream of
// short events is dropped by event(). A whole answer or one event may be longer, so its client has
// write_time for each most_unread_bytes, and idle_time for the rest. Without these limits a client
// that reads only a few bytes now and then would keep a long answer in the server's memory.
void Connection::watch_reader(size_t bytes) {
  const size_t most = hub_.options.most_unread_bytes;
  if (unread_bytes() <= most) {
    longest_events_.clear();
    if (read_in_time_) backlog_deadline_.clear();
    read_in_time_.reset();
    if (unread_bytes() + bytes > most) bound_wait();
    return;
  }
  if (read_in_time_ && (*read_in_time_ += bytes) < most) return;
  read_in_time_ = 0;
  backlog_deadline_.set(hub_.options.write_time,
                        [self = shared_from_this()] { self->drop_slow(); });
}

// Limits how long a connection without a request is kept, from when its client has no more than
// most_unread_bytes left to read; watch_reader() limits the time until then.
void Connection::bound_wait() {
  if (state_ != State::kIdle && state_ != State::kClosing) return;
  if (unread_bytes() > hub_.options.most_unread_bytes) return;
  read_deadline_.set(hub_.options.idle_time, [self = shared_from_this()] {
    if (self->unread_bytes() > 0) return self->drop_slow();
    self->drop();
  });
}

void Connection::write_some() {
  if (is_writing_ || state_ == State::kClosed) return;
  if (written_ == writing_.size()) {
    if (writing_.capacity() > kMostKept) std::string().swap(writing_);
    writing_.clear();
    written_ = 0;
    writing_.swap(pending_);
  }
  if (writing_.empty()) return flushed();
  is_writing_ = true;
  write_deadline_.set(hub_.options.write_time, [self = shared_from_this()] { self->drop_slow(); });
  socket_.async_write_some(asio::buffer(writing_.data() + written_, writing_.size() - written_),
                           [self = shared_from_this()](ErrorCode error, size_t bytes) {
                             self->is_writing_ = false;
                             self->guarded([&] { self->on_written(error, bytes); });
                           });
}

void Connection::on_written(ErrorCode error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) return drop();
  written_ += bytes;
  write_deadline_.clear();
  watch_reader(bytes);
  write_some();
}

// Called when all output is written.
void Connection::flushed() {
  if (state_ == State::kClosing) {
    if (ended_) return drop();
    ErrorCode ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    read_deadline_.set(kLinger, [self = shared_from_this()] { self->drop(); });
    return;
  }
  if (state_ == State::kIdle && hub_.draining()) return drop();
  bound_wait();  // all of the answer is read only now
  parse();       // requests that waited while answers were unread
  read();
}

void Connection::end_with(const ApiError& error) {
  framing_.keep_alive = false;
  write(framed(hub_.handler->error_of(head_, error), framing_));
  begin_closing();
}

void Connection::finish_answer() {
  gone_ = nullptr;
  heartbeat_.clear();
  if (!framing_.keep_alive || hub_.draining()) return begin_closing();
  state_ = State::kIdle;
  read_deadline_.clear();
  bound_wait();
  parse();
  read();
}

void Connection::begin_closing() {
  read_deadline_.clear();
  heartbeat_.clear();
  state_ = State::kClosing;
  bound_wait();
  input_.clear();
  parser_.reset();
  body_share_ = {};
  read();
  write_some();
}

}  // namespace kvick::server
