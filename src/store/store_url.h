#pragma once
// The address of a store: redis://[[user]:password@]host[:port][/database], or rediss:// for TLS.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::store {

struct StoreAddress {
  std::string host;
  uint16_t port = 6379;
  uint32_t database = 0;
  std::string user, password;  // empty: none
  bool tls = false;
  std::string ca_file;  // file of trusted certificates; empty: the system's

  std::string text() const;  // without user and password: "host:6379/0"
};

// Error: one sentence, which never contains the password.
base::Result<StoreAddress> parse_store_url(std::string_view url);

}  // namespace kvick::store
