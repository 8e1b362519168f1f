#pragma once
// A reply that adds headers to the answer, whichever it is.

#include "server/request/http.h"

namespace kvick::server {

// The reply itself if there are none.
std::shared_ptr<Reply> with_headers(std::shared_ptr<Reply> reply, Headers headers);

}  // namespace kvick::server
