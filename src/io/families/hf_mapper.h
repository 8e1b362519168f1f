#pragma once
// Maps fields of a config.json to <arch>.* keys.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/file/builder.h"
#include "io/file/model_file.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// Larger than in any model, but small enough for memory that is sized by them.
constexpr uint64_t kMaxLayers = 100'000, kMaxSize = uint64_t{1} << 31;

// Writes <arch>.* keys from fields of one config.
class Mapper {
 public:
  Mapper(const JsonObject& config, std::string architecture, Metadata& out)
      : config_(config), prefix_(std::move(architecture) + "."), out_(out) {}

  template <typename T>
  void set(std::string_view key, T value) {
    out_[prefix_ + std::string(key)].data = std::move(value);
  }

  // Sets a key that has no architecture in front.
  template <typename T>
  void set_whole(const std::string& key, T value) {
    out_[key].data = std::move(value);
  }

  // Reads a size, 1 to 2^31.
  base::Result<uint64_t> size(std::string_view field, std::optional<uint64_t> fallback = {}) const {
    KVICK_TRY(const uint64_t value, config_.get_uint(field, fallback));
    if (value < 1 || value > kMaxSize)
      return base::fail("{} is {}; 1 to {} are allowed", config_.label(field), value, kMaxSize);
    return value;
  }

  base::Status<> copy_size(std::string_view field, std::string_view key) {
    KVICK_TRY(const uint64_t value, size(field));
    set(key, value);
    return base::Done{};
  }

  // Check a setting that must have the one value that kvick supports.
  base::Status<> require_flag(std::string_view field, bool wanted) const {
    KVICK_TRY(const bool value, config_.get_bool(field, wanted));
    if (value == wanted) return base::Done{};
    return base::fail("{} is {}, which kvick does not support", config_.label(field), value);
  }
  base::Status<> require_name(std::string_view field, std::string_view wanted) const {
    KVICK_TRY(const std::string value, config_.get_string(field, std::string(wanted)));
    if (value == wanted) return base::Done{};
    return base::fail("{} is {}; kvick supports only {} there", config_.label(field),
                      in_quotes(value), in_quotes(wanted));
  }

  const JsonObject& config() const { return config_; }

 private:
  const JsonObject& config_;
  std::string prefix_;
  Metadata& out_;
};

// Maps the number of layers. Error: there are none, or more than kMaxLayers.
base::Status<> map_layer_count(Mapper& map, std::string_view field = "num_hidden_layers");

// Reads a number above 0.
base::Result<double> positive(const JsonObject& fields, std::string_view field,
                              std::optional<double> fallback = {});

struct HfHeads {
  uint64_t embedding = 0, heads = 0, head_dim = 0;
};

// Returns the number of rows in the table of RoBERTa's positions that are for no position. See
// hf_encoders.cc.
base::Result<uint64_t> padded_positions(const JsonObject& config);

// Returns the model_type of the table's row for a config. For a model with code of its own that
// is the config's with what tells the model from others: "bert with alibi". See hf_encoders.cc.
base::Result<std::string> row_type(const JsonObject& config);

// Returns whether some layers of Nemotron-H have experts. See hf_mixers.cc.
base::Result<bool> nemotron_has_experts(const JsonObject& config);

// Maps rotary keys from rope_theta, rope_scaling and rope_parameters; see hf_rope.cc.
base::Status<> map_rope(Mapper& map, const HfHeads& sizes);

}  // namespace kvick::io
