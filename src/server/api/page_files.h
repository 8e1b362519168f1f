#pragma once
// The files of the web page, by their paths.

#include <optional>
#include <string_view>

#include "server/request/http.h"

namespace kvick::server {

// Returns a file of the page, or nothing if there is no such file.
std::optional<HttpResponse> page_file(std::string_view path);

}  // namespace kvick::server
