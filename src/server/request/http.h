#pragma once
// An HTTP request, its answer, and the handler that gives it, independent of the network
// (net/connection.h).

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
  std::string authorization, content_type;  // a header x-api-key becomes "Bearer KEY"
  std::string body;
  Headers choices = {};      // headers X-Kvick-..., names in lower case
  BodyShare share = {};      // this body's share of the limit on all bodies
  std::string address = {};  // the client's, "127.0.0.1"; empty: the client has gone
  // id: the client's header X-Request-Id, or a new id if it sent none. trace_parent: the client's
  // header traceparent, unchecked.
  std::string id = {}, trace_parent = {};
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body;
  Headers headers = {};
};

inline constexpr std::string_view kEventStream = "text/event-stream";

// The head of a streamed answer.
struct StreamHead {
  std::string_view type = kEventStream;  // must be in static storage
  Headers headers = {};                  // additional headers
  // How many of the stream's events may be long: an event with the logprobs of a whole prompt is.
  // All of them may be sent before the client has had time to read one.
  size_t long_events = 1;
};

// Returns the reason phrase of a status: "Not Found" for 404.
std::string_view reason_of(unsigned status);

class RequestRecord;

// The way back to one request's client: either send(), or begin_events(), event()s and
// end_events(). On the network's thread. Calls have no effect once the client has gone. If a Reply
// is destroyed without an answer, the client is told that the server failed.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin_events(StreamHead head) = 0;
  // bytes: already framed for the stream's type (sse.h).
  virtual void event(std::string_view bytes) = 0;
  virtual void end_events() = 0;
  // Sets a function that is called once if the client goes or is dropped before its answer is
  // complete; immediately if that has happened already.
  virtual void on_gone(std::function<void()> gone) = 0;
  // Returns the record of the request (request_record.h), or null if none is kept. On any thread.
  virtual std::shared_ptr<RequestRecord> record() const { return nullptr; }
};

struct ApiError;

class Handler {
 public:
  virtual ~Handler() = default;
  // All calls are on the network's thread and must not block.
  // Called after a request's head has arrived and before its body is read. Returns the answer if
  // the request is refused.
  virtual std::optional<HttpResponse> refuses(const HttpRequest& /*head*/) const {
    return std::nullopt;
  }
  // Formats an error found before the request was handled, in the form of the API that `head`
  // addresses; by default OpenAI's form.
  virtual HttpResponse error_of(const HttpRequest& head, const ApiError& error) const;
  // Handles a request. The answer may come later.
  virtual void handle(HttpRequest request, std::shared_ptr<Reply> reply) = 0;
};

// Counts of connections since the server started, except for `open` and `draining`, which are
// current.
struct NetworkCounters {
  uint64_t open = 0;      // connections open now
  uint64_t accepted = 0;  // connections within the limit; those beyond it:
  uint64_t refused = 0;
  uint64_t requests = 0;
  uint64_t timed_out = 0;  // requests that were not complete in time (408)
  uint64_t slow = 0;       // connections dropped because the client read its answer too slowly
  uint64_t malformed = 0;  // requests that are not valid HTTP or too long
  bool draining = false;   // the server is draining now
};

// Posts a task to another thread.
using Post = std::function<void(std::function<void()>)>;
struct Threads {
  Post network;     // the thread of connections: only for short tasks
  Post background;  // several threads: parsing, templates, tokens, submitting
  Post answers;     // several threads that never wait for those above: the JSON of answers
};

}  // namespace kvick::server
