// The head of a request: what is read from it, and who is refused before the body is received.

#include <algorithm>
#include <boost/beast/core/string.hpp>

#include "server/net/connection.h"
#include "server/request/fields.h"

namespace kvick::server {
namespace {

namespace http = boost::beast::http;

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

// Longer ids would fill logs.
constexpr size_t kMostIdBytes = 128;

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
  // Many short fields take ten times their bytes, and nothing reads them any more.
  parser_->get().clear();
}

}  // namespace kvick::server
