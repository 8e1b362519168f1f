#pragma once
// How draft tokens are made, as --spec gives it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::engine {

struct SpecOption {
  std::string_view name, summary;
  std::string_view fallback;  // text of the default
  bool required = false;      // it must be given: there is no default
};
// A way to draft. The command line and the server read this table; Speculation makes its drafters.
struct SpecWay {
  std::string_view name, summary;
  std::span<const SpecOption> options;
};
std::span<const SpecWay> spec_ways();  // "none" first

struct SpecOptions {
  std::string way = "none";
  uint32_t most = 0;   // limit on the draft tokens of a step
  uint32_t depth = 0;  // limit on the depth of the tree of draft tokens
  // Whether draft tokens may make the cache grow before it must. If not, they use only its spare
  // rows (BMC, section VI-A).
  bool grow = false;
  // Whether draft tokens are made and verified only while measurements show that they save time.
  bool gain = true;
  std::string model;  // for ways draft and auto: file of the draft model; empty: none
  // Draft only this many of the most frequent tokens; 0: those that its file names, or all.
  uint32_t words = 0;
  std::vector<bool> skip;  // for way skip: the layers to leave out when drafting, by number
  bool on() const { return way != "none"; }
  bool by_own_layer() const { return way == "mtp"; }
  // Whether a draft model with rows of its own must be loaded.
  bool by_model() const { return by_own_layer() || !model.empty(); }
  bool operator==(const SpecOptions&) const = default;
};

// Parses NAME[:key=value,...]; empty: none. Errors list the values that exist.
base::Result<SpecOptions> parse_spec_options(std::string_view text);

}  // namespace kvick::engine
