#include "server/ops/client_counts.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace kvick::server {
namespace {

using base::Done;
// Has entries only for clients with requests, so at most one per connection.
using Tally = std::unordered_map<std::string, uint32_t>;

uint32_t count_of(const Tally& tally, const std::string& who) {
  const auto found = tally.find(who);
  return found == tally.end() ? 0 : found->second;
}

void give_back(Tally& tally, const std::string& who) noexcept {
  const auto found = tally.find(who);
  if (found != tally.end() && --found->second == 0) tally.erase(found);
}

std::string key_text(size_t key) { return key == 0 ? "" : std::to_string(key); }

ApiError too_many(std::string_view who, uint32_t most, std::string_view option) {
  return {.status = 429,
          .message = fmt::format("this {} has {} requests in progress, the most allowed at once "
                                 "({}); wait until one has ended",
                                 who, most, option),
          .code = "too_many_requests",
          .headers = {{"Retry-After", "1"}}};
}

}  // namespace

struct ClientCounts::Counts {
  std::mutex mutex;
  Tally keys, addresses;

  // Under the mutex.
  ApiStatus check(const ClientCountLimits& limits, const std::string& key,
                  const std::string& address) const {
    if (!key.empty() && limits.per_key != 0 && count_of(keys, key) >= limits.per_key)
      return too_many("key", limits.per_key, "--max-requests-per-key");
    if (limits.per_address != 0 && count_of(addresses, address) >= limits.per_address)
      return too_many("address", limits.per_address, "--max-requests-per-address");
    return Done{};
  }
};

// Holds the reply; its destructor ends the count.
struct ClientCounts::Place {
  std::shared_ptr<Reply> reply;
  std::string key, address;
  std::shared_ptr<Counts> counts;  // null: not counted

  ~Place() {
    if (counts == nullptr) return;
    const std::lock_guard lock(counts->mutex);
    give_back(counts->keys, key);
    give_back(counts->addresses, address);
  }
};

std::string client_network(std::string_view address) {
  constexpr std::string_view kMapped = "::ffff:";
  const std::string text(address.substr(0, address.find('%')));  // without the interface
  std::array<unsigned char, 16> bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return text;
  if (text.starts_with(kMapped) && text.find('.') != std::string::npos)
    return text.substr(kMapped.size());
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  std::array<char, INET6_ADDRSTRLEN> network{};
  inet_ntop(AF_INET6, bytes.data(), network.data(), network.size());
  return std::string(network.data()) + "/64";
}

ClientCounts::ClientCounts(ClientCountLimits limits)
    : limits_(limits), counts_(std::make_shared<Counts>()) {}

ApiStatus ClientCounts::check(const Client& client) const {
  if (limits_.per_key == 0 && limits_.per_address == 0) return Done{};
  const std::string address = client_network(client.address);
  const std::lock_guard lock(counts_->mutex);
  return counts_->check(limits_, key_text(client.key), address);
}

ApiResult<std::shared_ptr<Reply>> ClientCounts::count(const Client& client,
                                                      const std::shared_ptr<Reply>& reply) {
  if (limits_.per_key == 0 && limits_.per_address == 0) return reply;
  const auto place = std::make_shared<Place>();
  place->reply = reply;
  place->key = key_text(client.key);
  place->address = client_network(client.address);
  const std::lock_guard lock(counts_->mutex);
  KVICK_TRY_VOID(counts_->check(limits_, place->key, place->address));
  uint32_t &of_key = counts_->keys[place->key], &of_address = counts_->addresses[place->address];
  ++of_key, ++of_address;
  place->counts = counts_;
  return std::shared_ptr<Reply>(place, reply.get());
}

}  // namespace kvick::server
