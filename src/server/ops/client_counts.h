#pragma once
// Counts and limits the requests in progress per client. A client is counted by its key and by its
// address.

#include <memory>
#include <string>
#include <string_view>

#include "server/request/error.h"
#include "server/request/http.h"

namespace kvick::server {

struct ClientCountLimits {
  uint32_t per_key = 0, per_address = 0;  // 0: no limit
};

// Returns the text by which a client's requests are counted: its IPv4 address, or its IPv6 /64
// network, whose addresses usually belong to one client. Text that is no address is returned
// unchanged.
std::string client_network(std::string_view address);

class ClientCounts {
 public:
  struct Client {
    size_t key = 0;  // ApiKeys::owner; 0: no limit per key
    std::string_view address;
  };

  explicit ClientCounts(ClientCountLimits limits);

  // Error: status 429 with Retry-After if the client is at its limit of requests in progress.
  ApiStatus check(const Client& client) const;
  // Checks likewise and returns the reply, which counts as a request until its last holder releases
  // it, on any thread, even after this object is destroyed.
  ApiResult<std::shared_ptr<Reply>> count(const Client& client,
                                          const std::shared_ptr<Reply>& reply);

 private:
  struct Counts;
  struct Place;
  const ClientCountLimits limits_;
  std::shared_ptr<Counts> counts_;
};

}  // namespace kvick::server
