#pragma once
// One client's connection: reads requests one after the other and writes their answers. On the
// network's thread. Only files compiled with Boost include this header.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "server/net/deadline.h"
#include "server/net/longest_events.h"
#include "server/net/server.h"
#include "server/net/sse.h"
#include "server/request/error.h"

namespace kvick::server {

class Connection;

// State that all connections of a server share.
struct Hub {
  ServerOptions options;
  Handler* handler = nullptr;
  Post post;  // posts to the network's thread
  NetworkCounters counters;
  Sites sites;
  std::shared_ptr<BodyBudget> bodies;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  uint64_t made_ids = 0;
  size_t awaited = 0;  // connections that a drain waits for: those accepted before it began
  std::function<void()> on_empty;  // called when the last awaited connection has ended
  bool draining() const { return counters.draining; }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The hub must outlive the connection.
  Connection(boost::asio::ip::tcp::socket socket, Hub& hub);

  void start();
  // Answers that there are too many connections, and closes.
  void refuse();
  // Closes at once if the connection is idle, else after the current request.
  void drain();
  // Closes at once and calls the function given to on_gone().
  void drop();

  // The calls of a Reply. number: the request that the reply belongs to; calls for another request
  // than the current one have no effect.
  void send(uint64_t number, HttpResponse response);
  // The request's Reply was destroyed without an answer.
  void give_none(uint64_t number);
  void begin_events(uint64_t number, const StreamHead& head);
  void event(uint64_t number, std::string_view bytes);
  void end_events(uint64_t number);
  void on_gone(uint64_t number, std::function<void()> gone);

 private:
  enum class State {
    kIdle,     // waits for a request
    kHead,     // is receiving a request's head
    kBody,     // is receiving its body
    kBusy,     // the handler has the request, which is not answered yet
    kClosing,  // writes the rest of its output; input is discarded
    kClosed,
  };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::system::error_code;

  // Runs a part of this connection's work. An exception ends the connection, with an error answer
  // if that is still possible.
  template <typename Call>
  void guarded(const Call& call) {
    try {
      call();
    } catch (const std::exception&) {
      break_off();
    }
  }
  void break_off() noexcept;

  // reading (connection.cc, connection_head.cc)
  void read();
  void on_read(ErrorCode error, size_t bytes);
  bool wants_input() const;
  void parse();
  bool parse_some();
  void begin_request();
  void take_head();
  HttpRequest read_head() const;
  std::optional<HttpResponse> answer_to_head(const HttpRequest& head);
  std::string request_id() const;
  void begin_body();
  bool take_body();
  void dispatch();
  void refuse_request(ErrorCode error);
  void time_out();

  // writing (connection_write.cc)
  size_t unread_bytes() const { return pending_.size() + writing_.size() - written_; }
  bool answers(uint64_t number) const { return state_ == State::kBusy && number == number_; }
  void write_answer(HttpResponse response);
  void await_event();
  void beat();
  void write(std::string_view bytes);
  void write_some();
  void on_written(ErrorCode error, size_t bytes);
  void watch_reader(size_t bytes);
  void bound_wait();
  void drop_slow();
  void end_with(const ApiError& error);
  void finish_answer();
  void begin_closing();
  void flushed();

  boost::asio::ip::tcp::socket socket_;
  Hub& hub_;
  State state_ = State::kIdle;
  Deadline read_deadline_, write_deadline_, backlog_deadline_, heartbeat_;

  std::array<char, 16 << 10> chunk_;
  std::string input_;  // bytes received and not parsed yet
  std::optional<Parser> parser_;
  HttpRequest head_;      // head of the request whose body is being received
  BodyShare body_share_;  // share of the budget of the request that is being received
  bool reading_ = false, parsing_ = false;
  bool ended_ = false;  // the client has closed its side
  size_t thrown_away_ = 0;

  const std::string address_;  // the client's
  std::string made_id_;        // id for a request that has none
  const bool awaited_;         // accepted before the server began to drain
  uint64_t number_ = 0;        // number of the current request
  Framing framing_;            // framing of the current answer
  bool begun_ = false;         // begin_events() was called for the current answer
  bool beats_ = false;         // the stream's type allows comments, used as heartbeats
  std::function<void()> gone_;
  std::string pending_, writing_;
  size_t written_ = 0;  // bytes of writing_ that are written
  bool is_writing_ = false;
  // Bytes that the client has read since backlog_deadline_ was set; nothing: it is not set.
  std::optional<size_t> read_in_time_;
  LongestEvents longest_events_;  // since the client had at most most_unread_bytes unread
};

}  // namespace kvick::server
