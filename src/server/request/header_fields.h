#pragma once
// Fields of a request that may come as headers, since routers drop the fields that they do not
// know:
//
//   X-Kvick-Kv, X-Kvick-Kv-Type, X-Kvick-Kv-Select   kv.strategy, kv.type, kv.select
//   X-Kvick-Spec, X-Kvick-Cache-Salt                 spec, cache_salt
//   X-Kvick-Priority                                 priority

#include "server/request/error.h"
#include "server/request/unknown_fields.h"

namespace kvick::server {

// Puts them into the body, which is then read as ever; headers: HttpRequest::choices. Another
// header of the prefix is an unknown field. Error: the body says otherwise, or no number is one.
ApiStatus add_header_fields(const Headers& headers, Json& body, UnknownFields& unknown);

}  // namespace kvick::server
