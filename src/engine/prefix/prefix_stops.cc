#include "engine/prefix/prefix_stops.h"

#include <algorithm>

#include "engine/prefix/prompt_cuts.h"

namespace kvick::engine {
namespace {

// Looking up a stop costs a search in a table, or a few bytes sent to a store. Long conversations
// have thousands of messages, and resume from one of the last.
constexpr size_t kMostStops = 256;

}  // namespace

PrefixStop stop_behind(std::span<const Token> tokens, const BlockId& before) {
  const auto count = static_cast<uint32_t>(tokens.size());
  return {.tokens = count, .id = state_id(before, tokens.last(count % kBlockTokens))};
}

std::vector<PrefixStop> stops_in(std::span<const Token> tokens, const BlockId& root,
                                 std::span<const BlockId> blocks,
                                 const text::Tokenizer& tokenizer) {
  const auto end = static_cast<uint32_t>(tokens.size());
  std::vector<uint32_t> places;
  for (uint32_t at = end; at >= kLeastCutTokens && places.size() < kMostStops; --at)
    if (at == end || tokenizer.is_control(tokens[at])) places.push_back(at);
  for (uint32_t at = kFirstPowerCut; at < end; at *= 2) places.push_back(at);
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<PrefixStop> stops;
  for (const uint32_t at : places)
    stops.push_back(
        stop_behind(tokens.first(at), at < kBlockTokens ? root : blocks[at / kBlockTokens - 1]));
  return stops;
}

}  // namespace kvick::engine
