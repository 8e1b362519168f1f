#pragma once
// How an answer is drafted ahead, as --spec has it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::engine {

struct SpecOption {
  std::string_view name, summary;
  std::string_view fallback;  // the default, as text
  bool required = false;      // there is no default
};
// A way to draft. The command line and the server read this table; Speculation makes its drafters.
struct SpecWay {
  std::string_view name, summary;
  std::span<const SpecOption> options;
};
std::span<const SpecWay> spec_ways();  // "none" first

struct SpecOptions {
  std::string way = "none";
  uint32_t most = 0;   // draft tokens of a step
  uint32_t depth = 0;  // of the tree of draft tokens
  // Whether draft tokens may make the cache grow before it has to; else they live in its spare rows
  // (BMC, section VI-A).
  bool grow = false;
  // Whether draft tokens are made and verified only while that is measured to pay.
  bool gain = true;
  std::string model;       // of ways draft and auto: a file; empty: none
  uint32_t words = 0;      // tokens that it drafts with; 0: those that its file names, or all
  std::vector<bool> skip;  // of way skip: the layers that draft tokens leave out, by number
  bool on() const { return way != "none"; }
  bool by_own_layer() const { return way == "mtp"; }
  // By one that keeps rows of its own, which has to be loaded.
  bool by_model() const { return by_own_layer() || !model.empty(); }
  bool operator==(const SpecOptions&) const = default;
};

// NAME[:key=value,...]; empty: none. Errors list what exists.
base::Result<SpecOptions> parse_spec_options(std::string_view text);

}  // namespace kvick::engine
