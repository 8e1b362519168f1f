#pragma once
// Parts of read_config that families share.

#include <optional>
#include <string>
#include <string_view>

#include "model/core/config.h"

namespace kvick::model {

struct Family;

// Reads a config as this family has it; null: the sizes alone.
base::Result<Config> read_config(const io::ModelFile& file, const Family* family);

// A number from 1 to `most`.
base::Result<uint32_t> bounded_number(const io::ModelFile& file, const std::string& key,
                                      uint64_t most, std::optional<uint64_t> fallback = {});
base::Result<double> positive_number(const io::ModelFile& file, const std::string& key,
                                     double fallback);

// Which rotary keys count: layers with a window may have their own, with the suffix "_swa", to
// which the scaling for long contexts does not apply.
struct RopeKeys {
  std::string_view suffix = "";
  bool scaled = true;
};
// Needs the context.
base::Result<Rope> read_rope(const io::ModelFile& file, const Config& config, const RopeKeys& keys,
                             uint32_t head_dim);

}  // namespace kvick::model
