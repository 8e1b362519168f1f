#include "engine/options/spec_options.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "kv/registry/registry.h"
#include "kv/strategy/options.h"

namespace kvick::engine {
namespace {

using base::fail;

// Limit for any tree: with more draft tokens a forward is bound by arithmetic on every machine we
// know.
constexpr uint32_t kMostDrafts = 64;
constexpr uint32_t kMostLayers = 4096;
constexpr uint32_t kLeastWords = 16;

constexpr SpecOption kMost = {"most", "most draft tokens of a step", "8"};
constexpr SpecOption kGrow = {"grow", "let draft tokens grow a cache that grows by copying", "off"};
constexpr SpecOption kDepth = {"depth", "tokens that are drafted ahead", "4"};
constexpr SpecOption kGain = {"gain", "verify draft tokens only while that saves time", "on"};
constexpr SpecOption kWords = {
    "words", "draft only the N most frequent tokens; by default those that its file names, or all",
    ""};
constexpr SpecOption kOfTexts[] = {kMost, kGain, kGrow};
constexpr SpecOption kOfAuto[] = {
    {"most", "most draft tokens of a step", "16"},
    {"model", "a .gguf file with the same vocabulary, which drafts too while that pays", ""},
    kWords,
    kGrow};
constexpr SpecOption kOfModels[] = {{"model", "a .gguf file with the same vocabulary", "", true},
                                    kMost,
                                    kDepth,
                                    kWords,
                                    kGain,
                                    kGrow};
constexpr SpecOption kOfOwnLayer[] = {
    kMost, {"depth", "tokens that are drafted ahead", "3"}, kGain, kGrow};
constexpr SpecOption kOfLayers[] = {
    {"layers", "the layers that are left out, such as 8-23 or 3-6+10-13", "", true},
    kMost,
    kDepth,
    kGain,
    kGrow};

std::string quoted_names(const SpecWay& way) {
  std::vector<std::string_view> names;
  for (const SpecOption& option : way.options) names.push_back(option.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

base::Result<uint32_t> read_number(std::string_view text) {
  uint32_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    return fail("{} is not a whole number", kv::quote(text));
  return value;
}

base::Result<uint32_t> number_of(const SpecOption& option, std::string_view text) {
  const auto value = read_number(text);
  if (!value.ok() || *value < 1 || *value > kMostDrafts)
    return fail("{} is {}, but must be a number from 1 to {}", option.name, kv::quote(text),
                kMostDrafts);
  return value;
}

base::Result<uint32_t> words_of(std::string_view text) {
  const auto value = read_number(text);
  if (!value.ok() || *value < kLeastWords)
    return fail("words is {}, but must be a number of at least {}", kv::quote(text), kLeastWords);
  return value;
}

// Parses layers such as "8-23+27". Ranges include both ends.
base::Result<std::vector<bool>> layers_of(std::string_view text) {
  std::vector<bool> layers;
  while (true) {
    const size_t plus = std::min(text.find('+'), text.size());
    const std::string_view range = text.substr(0, plus);
    const size_t dash = std::min(range.find('-'), range.size());
    const auto first = read_number(range.substr(0, dash));
    const auto last = dash < range.size() ? read_number(range.substr(dash + 1)) : first;
    if (!first.ok() || !last.ok() || *first > *last || *last >= kMostLayers)
      return fail("layers is {}, but must be ranges such as 8-23 or 3-6+10-13", kv::quote(text));
    layers.resize(std::max<size_t>(layers.size(), *last + 1));
    std::fill(layers.begin() + *first, layers.begin() + *last + 1, true);
    if (plus == text.size()) return layers;
    text.remove_prefix(plus + 1);
  }
}

base::Status<> read_option(const SpecOption& option, const std::string& text, SpecOptions& out) {
  if (text.empty() && option.required)
    return fail("{} needs {}=..., {}", out.way, option.name, option.summary);
  if (option.name == "most") {
    KVICK_TRY(out.most, number_of(option, text));
  } else if (option.name == "depth") {
    KVICK_TRY(out.depth, number_of(option, text));
  } else if (option.name == "model") {
    out.model = text;
  } else if (option.name == "words") {
    if (!text.empty()) {
      KVICK_TRY(out.words, words_of(text));
    }
  } else if (option.name == "layers") {
    KVICK_TRY(out.skip, layers_of(text));
  } else {
    if (text != "on" && text != "off")
      return fail("{} is {}, but must be on or off", option.name, kv::quote(text));
    (option.name == "gain" ? out.gain : out.grow) = text == "on";
  }
  return base::Done{};
}

}  // namespace

std::span<const SpecWay> spec_ways() {
  static constexpr SpecWay kWays[] = {
      {"none", "no draft tokens: one token a step", {}},
      {"auto", "from this text, earlier texts and a model if one is given, while that saves time",
       kOfAuto},
      {"lookup", "what followed the last tokens earlier in the prompt and the answer", kOfTexts},
      {"suffix", "what followed the last tokens in the texts of earlier requests", kOfTexts},
      {"draft", "by a smaller model", kOfModels},
      {"mtp", "by the model's own draft layer (multi-token prediction), where its file has one",
       kOfOwnLayer},
      {"skip", "by the model itself without some of its layers", kOfLayers},
  };
  return kWays;
}

base::Result<SpecOptions> parse_spec_options(std::string_view text) {
  if (text.empty()) return SpecOptions();
  KVICK_TRY(const kv::Spec spec, kv::parse_spec(text));
  const auto ways = spec_ways();
  const auto way = std::find_if(ways.begin(), ways.end(),
                                [&](const SpecWay& one) { return one.name == spec.name; });
  if (way == ways.end()) {
    std::vector<std::string_view> names;
    for (const SpecWay& one : ways) names.push_back(one.name);
    return fail("{} is no way to draft tokens; there are {}", kv::quote(spec.name),
                fmt::join(names, ", "));
  }
  for (const auto& given : spec.options)
    if (std::none_of(way->options.begin(), way->options.end(),
                     [&](const SpecOption& option) { return option.name == given.first; }))
      return fail("{} has no option {}; it has {}", way->name, kv::quote(given.first),
                  way->options.empty() ? "none" : quoted_names(*way));
  SpecOptions options;
  options.way = spec.name;
  for (const SpecOption& option : way->options) {
    const auto given = spec.options.find(std::string(option.name));
    KVICK_TRY_VOID(read_option(
        option, given == spec.options.end() ? std::string(option.fallback) : given->second,
        options));
  }
  if (options.depth == 0) options.depth = options.most;
  return options;
}

}  // namespace kvick::engine
