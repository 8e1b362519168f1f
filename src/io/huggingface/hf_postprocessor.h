#pragma once
// Reads which tokens a tokenizer.json puts around a text.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/safetensors/json.h"

namespace kvick::io {

struct TemplateToken {
  std::string name;
  std::vector<uint64_t> ids;  // what is inserted; empty: the token of that name
};
struct PostProcessor {
  std::vector<TemplateToken> before, behind;  // of a single text
  size_t between = 0;                         // tokens between two texts
};

// root: the whole tokenizer.json. Error: a post-processor that does more than put tokens around the
// text.
base::Result<PostProcessor> read_post_processor(const JsonObject& root);

}  // namespace kvick::io
