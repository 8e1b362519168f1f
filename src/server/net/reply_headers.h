#pragma once
// A reply that adds headers to its answer, whether it is one message or a stream.

#include "server/request/http.h"

namespace kvick::server {

// Wraps `reply`; returns it unchanged if there are no headers.
std::shared_ptr<Reply> with_headers(std::shared_ptr<Reply> reply, Headers headers);

}  // namespace kvick::server
