#include "server/request/error.h"

namespace kvick::server {
namespace {

std::string_view type_of(unsigned status) {
  if (status == 429) return "rate_limit_error";
  if (status >= 500) return "server_error";
  return "invalid_request_error";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string_view reason_of(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

Json error_json(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", type_of(error.status)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

HttpResponse error_response(const ApiError& error) {
  return {.status = error.status, .body = to_text(error_json(error)), .headers = error.headers};
}

HttpResponse Handler::error_of(const HttpRequest& /*head*/, const ApiError& error) const {
  return error_response(error);
}

}  // namespace kvick::server
