#pragma once
// Server-sent events, and the HTTP/1.1 framing of streams and of whole answers.

#include <string>
#include <string_view>

#include "server/request/http.h"

namespace kvick::server {

// Returns "data: TEXT\n\n". text: one line.
std::string sse_event(std::string_view text);
// Returns "event: NAME\ndata: TEXT\n\n".
std::string sse_event(std::string_view name, std::string_view text);
// The end of OpenAI's streams.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// A comment, which clients skip.
inline constexpr std::string_view kSseHeartbeat = ": heartbeat\n\n";

struct Framing {
  bool http_1_1 = true;       // else HTTP/1.0, which has no chunks
  bool keep_alive = true;     // the connection stays open for the next request
  bool without_body = false;  // for answers to HEAD
  std::string lines = {};     // additional header lines, each with its line end
};
// Returns a whole answer as sent: framed_head(), then the body unless without_body is set.
std::string framed(const HttpResponse& response, const Framing& framing);
std::string framed_head(const HttpResponse& response, const Framing& framing);
// Returns the head of a stream. The end of an HTTP/1.0 stream is the end of the connection.
std::string stream_head(const Framing& framing, const StreamHead& head = {});
// Returns a piece of a stream as one chunk, or unchanged for HTTP/1.0. bytes: not empty, since an
// empty chunk would end the stream.
std::string stream_chunk(std::string_view bytes, const Framing& framing);
std::string_view stream_end(const Framing& framing);

}  // namespace kvick::server
