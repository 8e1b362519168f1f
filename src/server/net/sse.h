#pragma once
// Server-sent events, and the framing of HTTP/1.1 around them and around whole answers.

#include <string>
#include <string_view>

#include "server/request/http.h"

namespace kvick::server {

// "data: TEXT\n\n". text: one line.
std::string sse_event(std::string_view text);
// "event: NAME\ndata: TEXT\n\n".
std::string sse_event(std::string_view name, std::string_view text);
// What ends OpenAI's streams.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// A comment, which readers of events skip.
inline constexpr std::string_view kSseHeartbeat = ": heartbeat\n\n";

struct Framing {
  bool http_1_1 = true;       // else 1.0, whose clients know no chunks
  bool keep_alive = true;     // the connection is used again
  bool without_body = false;  // an answer to HEAD
  std::string lines = {};     // further ones of the head, each with its end
};
// A whole answer as it goes onto the wire: framed_head(), and the body unless it is left out.
std::string framed(const HttpResponse& response, const Framing& framing);
std::string framed_head(const HttpResponse& response, const Framing& framing);
// The head of a stream. An HTTP/1.0 one ends with the connection.
std::string stream_head(const Framing& framing, const StreamHead& head = {});
// A piece of a stream as one chunk, or as it is for HTTP/1.0. bytes: not empty, which would end it.
std::string stream_chunk(std::string_view bytes, const Framing& framing);
std::string_view stream_end(const Framing& framing);

}  // namespace kvick::server
