#include "server/net/sse.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace kvick::server {
namespace {

std::string head_of(unsigned status, const Framing& framing) {
  return fmt::format("HTTP/1.{} {} {}\r\nServer: kvick\r\nConnection: {}\r\n{}",
                     framing.http_1_1 ? 1 : 0, status, reason_of(status),
                     framing.keep_alive ? "keep-alive" : "close", framing.lines);
}

void add(const Headers& headers, std::string& out) {
  for (const auto& [name, value] : headers) out += fmt::format("{}: {}\r\n", name, value);
}

bool has(const Headers& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const auto& header) { return header.first == name; });
}

}  // namespace

std::string sse_event(std::string_view text) { return fmt::format("data: {}\n\n", text); }

std::string sse_event(std::string_view name, std::string_view text) {
  return fmt::format("event: {}\ndata: {}\n\n", name, text);
}

std::string framed_head(const HttpResponse& response, const Framing& framing) {
  std::string out = head_of(response.status, framing);
  if (response.status != 204)  // a 204 has no body (RFC 9110, 8.6)
    out += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", response.type,
                       response.body.size());
  // Answers of the API must not be cached, MIME-sniffed, or shown in a frame.
  for (const auto& [name, value] :
       {std::pair("Cache-Control", "no-store"), std::pair("X-Content-Type-Options", "nosniff"),
        std::pair("X-Frame-Options", "DENY")})
    if (!has(response.headers, name)) out += fmt::format("{}: {}\r\n", name, value);
  add(response.headers, out);
  return out + "\r\n";
}

std::string framed(const HttpResponse& response, const Framing& framing) {
  const std::string head = framed_head(response, framing);
  return framing.without_body ? head : head + response.body;
}

std::string stream_head(const Framing& framing, const StreamHead& head) {
  std::string out = head_of(200, framing);
  // X-Accel-Buffering keeps nginx from buffering events.
  out += fmt::format("Content-Type: {}\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n",
                     head.type);
  if (framing.http_1_1) out += "Transfer-Encoding: chunked\r\n";
  add(head.headers, out);
  return out + "\r\n";
}

std::string stream_chunk(std::string_view bytes, const Framing& framing) {
  if (!framing.http_1_1) return std::string(bytes);
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string_view stream_end(const Framing& framing) { return framing.http_1_1 ? "0\r\n\r\n" : ""; }

}  // namespace kvick::server
