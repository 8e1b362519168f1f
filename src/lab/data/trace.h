#pragma once
// Requests to real services, from traces that these services have published.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvick::lab {

// Tokens of a prompt and of its answer, at least one each.
struct TraceRequest {
  uint32_t prompt = 0, answer = 0;
};
// Reads lines of time,prompt tokens,answer tokens after a header line, as Azure publishes them.
// Errors: no such file; a malformed line or a request of more than most_tokens tokens, with the
// line number.
base::Result<std::vector<TraceRequest>> read_lengths(const std::string& path, uint64_t most_tokens);
// Returns the same requests with every length times `factor`, rounded up.
std::vector<TraceRequest> scaled(std::vector<TraceRequest> requests, double factor);
// At most `count` requests, taken at even distances over the whole trace: the first requests of a
// trace may be shorter than the others. count = 0: all of them.
std::vector<TraceRequest> spread_over(std::span<const TraceRequest> requests, size_t count);

// A prompt as the ids of its blocks: two prompts whose first n ids are equal begin with the same n
// blocks.
struct BlockRequest {
  std::vector<uint64_t> blocks;
};
// Reads one JSON object per line, with hash_ids, as Mooncake publishes them. Errors: as for
// read_lengths.
base::Result<std::vector<BlockRequest>> read_blocks(const std::string& path);

}  // namespace kvick::lab
