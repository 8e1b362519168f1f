#include "lab/data/block_cache.h"

#include <limits>
#include <set>
#include <unordered_map>

namespace kvick::lab {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// Returns, per request and block, the next request that has this block.
std::vector<std::vector<uint64_t>> next_uses(std::span<const BlockRequest> requests) {
  std::vector<std::vector<uint64_t>> next(requests.size());
  std::unordered_map<uint64_t, uint64_t> coming;
  for (size_t i = requests.size(); i-- > 0;) {
    const std::vector<uint64_t>& blocks = requests[i].blocks;
    for (const uint64_t block : blocks) {
      const auto at = coming.find(block);
      next[i].push_back(at == coming.end() ? kNever : at->second);
    }
    for (const uint64_t block : blocks) coming[block] = i;
  }
  return next;
}

// The block of the lowest worth is evicted first.
struct Worth {
  uint64_t use = 0;    // later use is worth more
  uint64_t place = 0;  // an earlier place in the prompt is worth more
  uint64_t block = 0;
  auto operator<=>(const Worth&) const = default;
};

}  // namespace

uint64_t served_blocks(std::span<const BlockRequest> requests, uint64_t capacity,
                       Replacement replacement) {
  const bool foresees = replacement == Replacement::kForesees;
  const auto next = foresees ? next_uses(requests) : std::vector<std::vector<uint64_t>>();
  std::unordered_map<uint64_t, Worth> held;
  std::set<Worth> order;
  uint64_t served = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<uint64_t>& blocks = requests[i].blocks;
    for (size_t known = 0; known < blocks.size() && held.contains(blocks[known]); ++known) ++served;
    for (size_t j = 0; j < blocks.size(); ++j) {
      const Worth worth = {
          .use = foresees ? kNever - next[i][j] : i, .place = kNever - j, .block = blocks[j]};
      const auto [at, is_new] = held.try_emplace(blocks[j], worth);
      if (!is_new) order.erase(std::exchange(at->second, worth));
      order.insert(worth);
    }
    while (held.size() > capacity) {
      held.erase(order.begin()->block);
      order.erase(order.begin());
    }
  }
  return served;
}

}  // namespace kvick::lab
