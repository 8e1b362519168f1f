#include "server/request/target.h"

#include <algorithm>
#include <charconv>

#include "server/request/fields.h"

namespace kvick::server {
namespace {

std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return "";
    unsigned value = 0;
    const auto read = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + i + 3) return "";
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

// What stands for the braces ("" where there are none), or nothing if the route is another.
std::optional<std::string> argument_of(std::string_view route, std::string_view path) {
  const size_t brace = route.find('{');
  if (brace == std::string_view::npos)
    return route == path ? std::optional<std::string>("") : std::nullopt;
  if (path.size() <= brace || !path.starts_with(route.substr(0, brace))) return std::nullopt;
  return std::string(path.substr(brace));
}

}  // namespace

std::string path_of(std::string_view target) {
  if (const size_t scheme = target.find("://");
      scheme != std::string_view::npos && scheme < target.find('/')) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find_first_of("?#"));
  return target.starts_with('/') ? decoded(target) : "";
}

ApiResult<Match> match(std::span<const RouteName> routes, std::string_view method,
                       std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::string allowed;
  for (size_t i = 0; i < routes.size(); ++i) {
    const auto argument = argument_of(routes[i].path, path);
    if (!argument) continue;
    if (routes[i].method == wanted) return Match{.route = i, .argument = *argument};
    allowed += (allowed.empty() ? "" : ", ") + std::string(routes[i].method);
    if (routes[i].method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty())
    return ApiError{.status = 404,
                    .message = fmt::format("there is nothing at {}; GET /openapi.json lists what "
                                           "there is",
                                           in_quotes(path)),
                    .code = "not_found"};
  return ApiError{.status = 405,
                  .message = fmt::format("{} does not take {}, but {}", in_quotes(path),
                                         in_quotes(method), allowed),
                  .code = "method_not_allowed",
                  .headers = {{"Allow", allowed}}};
}

}  // namespace kvick::server
