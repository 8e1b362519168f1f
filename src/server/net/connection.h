#pragma once
// One client's connection: requests in, one after the other, and answers out. All on the network's
// thread. Included only by what is compiled with Boost.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "server/net/deadline.h"
#include "server/net/server.h"
#include "server/net/sse.h"
#include "server/request/error.h"

namespace kvick::server {

class Connection;

// What the connections of a server have in common.
struct Hub {
  ServerOptions options;
  Handler* handler = nullptr;
  Post post;  // to the network's thread
  NetworkCounters counters;
  Sites sites;
  std::shared_ptr<BodyBudget> bodies;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  uint64_t made_ids = 0;
  size_t awaited = 0;              // of these; those that came while the server drains are not
  std::function<void()> on_empty;  // the last awaited connection has ended
  bool draining() const { return counters.draining; }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The hub outlives it.
  Connection(boost::asio::ip::tcp::socket socket, Hub& hub);

  void start();
  // Answers that there are too many, and ends.
  void refuse();
  // Ends at once if no request is there, else after it.
  void drain();
  // Ends at once; whoever answers is told.
  void drop();

  // What a Reply asks for; number says which request it answers. Another one's have no effect.
  void send(uint64_t number, HttpResponse response);
  // Its reply is gone, and nobody will answer.
  void give_none(uint64_t number);
  void begin_events(uint64_t number, const StreamHead& head);
  void event(uint64_t number, std::string_view bytes);
  void end_events(uint64_t number);
  void on_gone(uint64_t number, std::function<void()> gone);

 private:
  enum class State {
    kIdle,     // waits for a request
    kHead,     // is in the middle of a request's head,
    kBody,     // or of its body
    kBusy,     // the handler has the request
    kClosing,  // writes what is left; what comes in is thrown away
    kClosed,
  };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::system::error_code;

  // Does a part of this connection's work; what it throws ends the connection, with an answer if
  // that is possible.
  template <typename Call>
  void guarded(const Call& call) {
    try {
      call();
    } catch (const std::exception&) {
      break_off();
    }
  }
  void break_off() noexcept;

  // reading (connection.cc)
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
  std::string input_;  // read, but not parsed
  std::optional<Parser> parser_;
  HttpRequest head_;      // of the request whose body the parser has
  BodyShare body_share_;  // of the body that the parser has
  bool reading_ = false, parsing_ = false;
  bool ended_ = false;  // the client sends no more
  size_t thrown_away_ = 0;

  const std::string address_;  // the client's
  std::string made_id_;        // of a request that brings none
  const bool awaited_;         // came before the server drained
  uint64_t number_ = 0;        // of the request
  Framing framing_;            // of its answer
  bool begun_ = false;         // events of it
  bool beats_ = false;         // they are of a type that has comments
  std::function<void()> gone_;
  std::string pending_, writing_;
  size_t written_ = 0;  // of writing_
  bool is_writing_ = false;
  std::optional<size_t> read_in_time_;  // since the backlog's deadline was set; none: it is not
};

}  // namespace kvick::server
