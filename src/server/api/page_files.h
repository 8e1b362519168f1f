#pragma once
// The files of the page, by their paths.

#include <optional>
#include <string_view>

#include "server/request/http.h"

namespace kvick::server {

// Nothing where there is no such file.
std::optional<HttpResponse> page_file(std::string_view path);

}  // namespace kvick::server
