#pragma once
// Fields of a request that may come as headers, because routers drop body fields that they do not
// know:
//
//   X-Kvick-Kv, X-Kvick-Kv-Type, X-Kvick-Kv-Select   kv.strategy, kv.type, kv.select
//   X-Kvick-Spec, X-Kvick-Cache-Salt                 spec, cache_salt
//   X-Kvick-Priority                                 priority

#include "server/request/error.h"
#include "server/request/unknown_fields.h"

namespace kvick::server {

// Adds these headers to the body, as if they had been fields of it. headers: HttpRequest::choices.
// Any other header with the prefix counts as an unknown field. Error: the body has another value,
// or a number is malformed.
ApiStatus add_header_fields(const Headers& headers, Json& body, UnknownFields& unknown);

}  // namespace kvick::server
