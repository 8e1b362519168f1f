#pragma once
// An HTTP request, its answer, and who gives it: apart from how they travel (connection.h).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/request/body_budget.h"

namespace kvick::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;                       // "GET"
  std::string target;                       // as sent: "/v1/models?x=1"
  std::string authorization, content_type;  // an x-api-key is a "Bearer" authorization
  std::string body;
  Headers choices = {};      // X-Kvick-..., their names in lower case
  BodyShare share = {};      // of what all bodies may take
  std::string address = {};  // of the client, "127.0.0.1"; empty: it has gone
  // id: the client's header X-Request-Id, or a new id where it sent none. trace_parent: its header
  // traceparent, unchecked.
  std::string id = {}, trace_parent = {};
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body;
  Headers headers = {};
};

inline constexpr std::string_view kEventStream = "text/event-stream";

// Of a stream.
struct StreamHead {
  std::string_view type = kEventStream;  // of static storage
  Headers headers = {};                  // further ones
};

// "Not Found"
std::string_view reason_of(unsigned status);

class RequestRecord;

// The way back to one request's client: either send(), or begin_events(), event()s and
// end_events(). Used on the network's thread. Once the client has gone, calls have no effect. One
// that is destroyed without an answer answers that the server failed.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin_events(StreamHead head) = 0;
  virtual void event(std::string_view bytes) = 0;  // framed already, as its type wants (sse.h)
  virtual void end_events() = 0;
  // Called once if the client goes, or is dropped, before its answer is whole; at once if it has.
  virtual void on_gone(std::function<void()> gone) = 0;
  // Of the request that it answers (request_record.h); null: nobody keeps one. On any thread.
  virtual std::shared_ptr<RequestRecord> record() const { return nullptr; }
};

struct ApiError;

class Handler {
 public:
  virtual ~Handler() = default;
  // Both on the network's thread, which they must not hold up.
  // Asked when a request's head is there, before its body is read: the answer to a request that
  // will not be handled.
  virtual std::optional<HttpResponse> refuses(const HttpRequest& /*head*/) const {
    return std::nullopt;
  }
  // What is wrong with a request before anybody looked at it, as the API that it asks says errors;
  // by default as OpenAI's does.
  virtual HttpResponse error_of(const HttpRequest& head, const ApiError& error) const;
  // The answer may come later.
  virtual void handle(HttpRequest request, std::shared_ptr<Reply> reply) = 0;
};

// What has happened to connections, since the server began unless it says now.
struct NetworkCounters {
  uint64_t open = 0;      // now
  uint64_t accepted = 0;  // and those refused because there were too many:
  uint64_t refused = 0;
  uint64_t requests = 0;
  uint64_t timed_out = 0;  // while their request, or its reader, was waited for
  uint64_t slow = 0;       // dropped because they did not read their answer
  uint64_t malformed = 0;  // not HTTP
  bool draining = false;   // now
};

// Where work is handed on to.
using Post = std::function<void(std::function<void()>)>;
struct Threads {
  Post network;     // the one of connections: nothing that takes long
  Post background;  // several: parsing, templates, tokens, submitting
  Post answers;     // several, which wait for none of the above: the JSON of answers
};

}  // namespace kvick::server
