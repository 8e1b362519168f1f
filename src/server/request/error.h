#pragma once
// An error of a request, in OpenAI's form: {"error": {"message", "type", "param", "code"}}.

#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/request/http.h"
#include "server/request/json.h"

namespace kvick::server {

struct ApiError {
  unsigned status = 400;
  std::string message;  // one sentence that says what to do
  std::string param;    // the wrong field, "messages[0].role"; empty: none
  std::string code;     // for programs, "model_not_found"; empty: none
  Headers headers = {};
};

template <typename T>
using ApiResult = base::Result<T, ApiError>;
using ApiStatus = base::Status<ApiError>;

// Makes an error of status 400: return bad_field("n", "n is {}, but ...", n).
template <typename... Args>
ApiError bad_field(std::string param, fmt::format_string<Args...> format, Args&&... args) {
  return {.message = fmt::format(format, std::forward<Args>(args)...), .param = std::move(param)};
}

Json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace kvick::server
