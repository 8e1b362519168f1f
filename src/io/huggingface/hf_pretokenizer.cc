#include "io/huggingface/hf_pretokenizer.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file/builder.h"

namespace kvick::io {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

// The steps before ByteLevel, with the patterns of published files (line ends are written as
// escapes, as in some of them). GGUF's names also determine whether a stretch that is a piece
// becomes its token without merging; tokenizer.json calls this "ignore_merges". If the file's value
// differs from that of `name`, `otherwise` is used.
struct Known {
  std::string_view splits, name;
  bool ignores_merges = false;  // the value that `name` implies
  std::string_view otherwise = {};
};
constexpr std::array kPatterns = {
    Known{R"(Split 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
          "gpt-2"},
    Known{
        R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
        R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
        "llama-bpe", true, "dbrx"},
    Known{
        R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
        R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
        "qwen2"},
    Known{R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
          R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          "qwen35"},
    // Seed-OSS
    Known{
        R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
        R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
        "seed-coder"},
    // gpt-oss, Llama 4, Phi-4-mini
    Known{R"(Split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
          R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          "gpt-4o", false, "granite-embed-multi-97m"},
    // Mistral Nemo and later
    Known{R"(Split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
          R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          "tekken", true},
    Known{R"(Split \p{N}{1,3}, then Split [)"
          "\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
          R"(]+, then Split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
          R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          "deepseek-v3"},
    Known{R"(Split [\r\n], then Split \s?\p{L}+, then Split \s?\p{P}+, then Split [)"
          "\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff"
          R"(]+, then Digits)",
          "deepseek-coder"},
    // DeepSeek-V2-Lite: the letters are those of scripts that distinguish upper and lower case.
    Known{R"(Split [\r\n], then Split \s?[)"
          "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
          "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
          "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-"
          "\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15"
          "\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
          "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
          "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
          "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183"
          "\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
          "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-"
          "\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
          "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
          R"(]+, then Split \s?[)"
          "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
          R"(]+, then Split \s+$, then Split [)"
          "\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff"
          R"(]+, then Digits)",
          "deepseek-v2"},
};

std::string with_named_lines(std::string_view regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\r')
      out += "\\r";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

// Describes a step in a form that can be compared: "Digits", "ByteLevel", "ByteLevel without
// words", "Split PATTERN", "Find PATTERN" (which drops the text between matches).
base::Result<std::string> describe_step(const JsonObject& step) {
  KVICK_TRY(const std::string type, step.get_string("type"));
  if (type == "Digits") {
    KVICK_TRY(const bool single, step.get_bool("individual_digits", false));
    return single ? type : type + " in runs";
  }
  if (type == "ByteLevel") {
    KVICK_TRY(const bool prefix, step.get_bool("add_prefix_space", true));
    KVICK_TRY(const bool words, step.get_bool("use_regex", true));
    return type + (words ? "" : " without words") + (prefix ? " with a space before" : "");
  }
  if (type == "Split") {
    KVICK_TRY(const JsonObject pattern, step.get_object("pattern"));
    KVICK_TRY(const std::string regex, pattern.get_string("Regex", ""));
    KVICK_TRY(const std::string behavior, step.get_string("behavior"));
    KVICK_TRY(const bool invert, step.get_bool("invert", false));
    if (behavior == "Isolated" && !invert) return type + " " + with_named_lines(regex);
    if (behavior == "Removed" && invert) return "Find " + with_named_lines(regex);
  }
  return type + " of another kind";
}

// Returns the model's "ignore_merges"; nullopt for files from before 2024, which lack it.
base::Result<std::optional<bool>> ignores_merges(const JsonObject& root) {
  if (!root.find("model")) return std::optional<bool>();
  KVICK_TRY(const JsonObject model, root.get_object("model"));
  if (!model.find("ignore_merges")) return std::optional<bool>();
  KVICK_TRY(const bool ignores, model.get_bool("ignore_merges", false));
  return std::optional<bool>(ignores);
}

}  // namespace

base::Result<std::vector<JsonObject>> steps_of(const JsonObject& root, std::string_view field,
                                               std::string_view list) {
  std::vector<JsonObject> steps;
  if (!root.find(field)) return steps;
  KVICK_TRY(JsonObject step, root.get_object(field));
  KVICK_TRY(const std::string type, step.get_string("type"));
  if (type != "Sequence") {
    steps.push_back(std::move(step));
    return steps;
  }
  KVICK_TRY(const simdjson::dom::array inner, step.get_array(list));
  for (const Json element : inner) {
    KVICK_TRY(JsonObject part, JsonObject::from(element, step.label(list)));
    steps.push_back(std::move(part));
  }
  return steps;
}

base::Result<bool> byte_level_nfc(const JsonObject& root) {
  KVICK_TRY(const auto steps, steps_of(root, "normalizer", "normalizers"));
  for (const JsonObject& step : steps) {
    KVICK_TRY(const std::string type, step.get_string("type"));
    if (type != "NFC")
      return base::fail("{} is {}; kvick knows byte-level tokenizers with NFC or none",
                        root.label("normalizer"), in_quotes(type));
  }
  return !steps.empty();
}

base::Result<std::string> byte_level_pretokenizer(const JsonObject& root) {
  KVICK_TRY(const auto steps, steps_of(root, "pre_tokenizer", "pretokenizers"));
  std::string all;
  for (const JsonObject& step : steps) {
    KVICK_TRY(const std::string form, describe_step(step));
    all += (all.empty() ? "" : ", then ") + form;
  }
  // These patterns leave nothing between matches, so Find equals Split.
  if (steps.size() == 2 && all.starts_with("Find ")) all.replace(0, 4, "Split");
  if (all == "ByteLevel") return std::string("gpt-2");
  if (all == "Digits, then ByteLevel") return std::string("smollm");
  KVICK_TRY(const std::optional<bool> ignores, ignores_merges(root));
  for (const Known& known : kPatterns) {
    if (all != std::string(known.splits) + ", then ByteLevel without words") continue;
    const bool other = !known.otherwise.empty() && ignores && *ignores != known.ignores_merges;
    return std::string(other ? known.otherwise : known.name);
  }
  return base::fail(
      "{} is {}; kvick knows those of gpt-2, smollm, llama-bpe (Llama 3), qwen2, qwen35, "
      "gpt-4o, tekken, seed-coder, deepseek-coder, deepseek-v2 and deepseek-v3",
      root.label("pre_tokenizer"), all.empty() ? "absent" : in_quotes(all));
}

base::Result<SpacePrefix> sentencepiece_prefix(const JsonObject& root) {
  SpacePrefix prefix;
  bool marks_spaces = false;
  KVICK_TRY(const auto normalizers, steps_of(root, "normalizer", "normalizers"));
  for (const JsonObject& step : normalizers) {
    KVICK_TRY(const std::string type, step.get_string("type"));
    if (type == "Prepend") {
      KVICK_TRY(const std::string text, step.get_string("prepend"));
      if (text == kSpaceMark) {
        prefix.added = prefix.normalizes = true;
        continue;
      }
    } else if (type == "Replace") {
      KVICK_TRY(const JsonObject pattern, step.get_object("pattern"));
      KVICK_TRY(const std::string from, pattern.get_string("String", ""));
      KVICK_TRY(const std::string to, step.get_string("content"));
      if (from == " " && to == kSpaceMark) {
        marks_spaces = true;
        continue;
      }
    }
    return base::fail("{} does more than turn spaces into U+2581, which kvick does not support",
                      root.label("normalizer"));
  }
  KVICK_TRY(const auto pretokenizers, steps_of(root, "pre_tokenizer", "pretokenizers"));
  for (const JsonObject& step : pretokenizers) {
    KVICK_TRY(const std::string type, step.get_string("type"));
    // Gemma splits at spaces, which have been replaced by now.
    if (type == "Split" && marks_spaces) {
      KVICK_TRY(const JsonObject pattern, step.get_object("pattern"));
      KVICK_TRY(const std::string at, pattern.get_string("String", ""));
      if (at == " ") continue;
    }
    KVICK_TRY(const std::string mark, step.get_string("replacement", std::string(kSpaceMark)));
    KVICK_TRY(const bool split, step.get_bool("split", true));
    if (type != "Metaspace" || mark != kSpaceMark || split)
      return base::fail("{} is not the Metaspace without splitting that kvick knows",
                        root.label("pre_tokenizer"));
    KVICK_TRY(const bool space, step.get_bool("add_prefix_space", true));
    KVICK_TRY(const std::string scheme,
              step.get_string("prepend_scheme", space ? "always" : "never"));
    // If the normalizer has put a space before all texts, Metaspace finds one there.
    prefix.spared = !prefix.added && scheme != "never";
    prefix.once = !prefix.added && scheme == "first";
    prefix.added = prefix.added || scheme != "never";
  }
  return prefix;
}

}  // namespace kvick::io
