#pragma once
// How many requests each client has at once, and how many it may have: a client is the key that it
// gives, and the address that it comes from.

#include <memory>
#include <string>
#include <string_view>

#include "server/request/error.h"
#include "server/request/http.h"

namespace kvick::server {

struct ClientCountLimits {
  uint32_t per_key = 0, per_address = 0;  // 0: any number
};

// Key under which a client's requests count: its IPv4 address, or its IPv6 /64 network, whose
// addresses usually belong to one client. Text that is no address is returned as it is.
std::string client_network(std::string_view address);

class ClientCounts {
 public:
  struct Client {
    size_t key = 0;  // ApiKeys::owner; 0 has no limit of a key
    std::string_view address;
  };

  explicit ClientCounts(ClientCountLimits limits);

  // Error: status 429 with Retry-After if the client has reached its limit of requests at once.
  ApiStatus check(const Client& client) const;
  // The same, or the reply, which counts until nobody holds it any more. That may be on any thread,
  // and after this has gone.
  ApiResult<std::shared_ptr<Reply>> count(const Client& client,
                                          const std::shared_ptr<Reply>& reply);

 private:
  struct Counts;
  struct Place;
  const ClientCountLimits limits_;
  std::shared_ptr<Counts> counts_;
};

}  // namespace kvick::server
