#pragma once
// What a request asks for: the path of its target, and which route that is.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/request/error.h"

namespace kvick::server {

// The path of a request's target, without query, decoded: "/v1/models/a b" of
// "http://host/v1/models/a%20b?x". Empty: it has none, or a wrong % code.
std::string path_of(std::string_view target);

// The value of a field of a target's query, decoded: "a b" of limit in "/x?limit=a%20b". Empty: it
// is not there.
std::string query_of(std::string_view target, std::string_view name);

struct RouteName {
  std::string_view method;  // "GET", which answers HEAD too
  std::string_view
      path;  // "/v1/models/{id}": the braces stand for all up to what is behind, not empty
};

struct Match {
  size_t route = 0;      // index
  std::string argument;  // what stands for the braces
};

// Errors: 404, or 405 with the methods that there are.
ApiResult<Match> match(std::span<const RouteName> routes, std::string_view method,
                       std::string_view path);

}  // namespace kvick::server
