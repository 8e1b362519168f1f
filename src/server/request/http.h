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
  std::string method;  // "GET"
  std::string target;  // as sent: "/v1/models?x=1"
  std::string authorization, content_type;
  std::string body;
  Headers choices = {};  // X-Kvick-..., their names in lower case
  BodyShare share = {};  // of what all bodies may take
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body;
  Headers headers = {};
};

// "Not Found"
std::string_view reason_of(unsigned status);

// The way back to one request's client: either send(), or begin_events(), event()s and
// end_events(). Used on the network's thread. Once the client has gone, calls have no effect. One
// that is destroyed without an answer answers that the server failed.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(HttpResponse response) = 0;
  // headers: further ones of the answer.
  virtual void begin_events(Headers headers = {}) = 0;
  virtual void event(std::string_view bytes) = 0;  // framed already (sse.h)
  virtual void end_events() = 0;
  // Called once if the client goes, or is dropped, before its answer is whole; at once if it has.
  virtual void on_gone(std::function<void()> gone) = 0;
};

class Handler {
 public:
  virtual ~Handler() = default;
  // Both on the network's thread, which they must not hold up.
  // Asked when a request's head is there, before its body is read: the answer to a request that
  // will not be handled.
  virtual std::optional<HttpResponse> refuses(const HttpRequest& /*head*/) const {
    return std::nullopt;
  }
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
