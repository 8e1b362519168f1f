#include "io/huggingface/hf_encoder_tokenizers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file/builder.h"
#include "io/huggingface/hf_pretokenizer.h"

namespace kvick::io {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581
constexpr std::string_view kInside = "##";
constexpr uint64_t kMostCharacters = 100;  // in a word; longer words are unknown

base::Status<> check_model(const JsonObject& model) {
  KVICK_TRY(const std::string inside,
            model.get_string("continuing_subword_prefix", std::string(kInside)));
  if (inside != kInside)
    return base::fail("{} is {}; kvick knows ##", model.label("continuing_subword_prefix"),
                      in_quotes(inside));
  KVICK_TRY(const uint64_t most, model.get_uint("max_input_chars_per_word", kMostCharacters));
  if (most != kMostCharacters)
    return base::fail("{} is {}; kvick knows {}", model.label("max_input_chars_per_word"), most,
                      kMostCharacters);
  return base::Done{};
}

base::Status<> require_type(const JsonObject& root, std::string_view field,
                            std::string_view wanted) {
  KVICK_TRY(const JsonObject step, root.get_object(field));
  KVICK_TRY(const std::string type, step.get_string("type"));
  if (type == wanted) return base::Done{};
  return base::fail("{} is {}; kvick knows WordPiece with {}", root.label(field), in_quotes(type),
                    wanted);
}

base::Status<> map_normalizer(const JsonObject& root, Metadata& out) {
  KVICK_TRY_VOID(require_type(root, "normalizer", "BertNormalizer"));
  KVICK_TRY(const JsonObject normalizer, root.get_object("normalizer"));
  for (const std::string_view field : {"clean_text", "handle_chinese_chars"}) {
    KVICK_TRY(const bool value, normalizer.get_bool(field, true));
    if (!value)
      return base::fail("{} is false, which kvick does not support", normalizer.label(field));
  }
  KVICK_TRY(const bool lowercase, normalizer.get_bool("lowercase", true));
  KVICK_TRY(const bool strips, normalizer.get_bool("strip_accents", lowercase));
  out["tokenizer.ggml.normalizer.lowercase"].data = lowercase;
  out["tokenizer.ggml.normalizer.strip_accents"].data = strips;
  return base::Done{};
}

// Returns the bytes of a base64 text; nullopt if it is none.
std::optional<std::vector<int64_t>> bytes_of_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::vector<int64_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(bits >> count & 0xff);
  }
  return bytes;
}

// One piece of a Unigram model and its score.
base::Result<std::pair<std::string_view, double>> read_scored(const Json& element,
                                                              const JsonObject& model) {
  simdjson::dom::array pair;
  std::pair<std::string_view, double> out;
  if (element.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(out.first) != simdjson::SUCCESS ||
      pair.at(1).get(out.second) != simdjson::SUCCESS)
    return base::fail("{} must hold pairs of a piece and its score", model.label("vocab"));
  return out;
}

// Maps the normalizer of a Unigram model. Returns whether it makes one space of several.
base::Result<bool> map_charsmap(const JsonObject& root, Metadata& out) {
  bool merges = false, mapped = false;
  KVICK_TRY(const auto steps, steps_of(root, "normalizer", "normalizers"));
  for (const JsonObject& step : steps) {
    KVICK_TRY(const std::string type, step.get_string("type"));
    if (type == "Strip") continue;  // the ends of a text have no space either way
    if (type == "Replace") {
      KVICK_TRY(const JsonObject pattern, step.get_object("pattern"));
      KVICK_TRY(const std::string from, pattern.get_string("Regex", ""));
      KVICK_TRY(const std::string to, step.get_string("content"));
      merges = from == " {2,}" && (to == " " || to == kSpaceMark);
      if (merges) continue;
    } else if (type == "Precompiled") {
      KVICK_TRY(const std::string text, step.get_string("precompiled_charsmap"));
      auto bytes = bytes_of_base64(text);
      if (!bytes) return base::fail("{} is no base64", step.label("precompiled_charsmap"));
      out["tokenizer.ggml.precompiled_charsmap"].data = *std::move(bytes);
      mapped = true;
      continue;
    }
    return base::fail("{} has the step {}, which kvick does not know in Unigram tokenizers",
                      root.label("normalizer"), in_quotes(type));
  }
  if (!mapped)
    return base::fail("{} has no Precompiled map of characters", root.label("normalizer"));
  return merges;
}

}  // namespace

base::Status<> read_unigram_pieces(const JsonObject& model, uint64_t vocabulary, Pieces& pieces) {
  KVICK_TRY(const bool bytes, model.get_bool("byte_fallback", false));
  if (bytes)
    return base::fail("{} is true, which kvick does not support", model.label("byte_fallback"));
  KVICK_TRY(const simdjson::dom::array list, model.get_array("vocab"));
  if (list.size() > vocabulary)
    return base::fail("{} has {} pieces, but the model's vocab_size is {}", model.label("vocab"),
                      list.size(), vocabulary);
  pieces.texts.resize(vocabulary);
  pieces.kinds.assign(vocabulary, PieceKind::kUnused);
  size_t id = 0;
  for (const Json element : list) {
    KVICK_TRY(const auto scored, read_scored(element, model));
    pieces.texts[id] = scored.first;
    pieces.kinds[id++] = PieceKind::kNormal;
  }
  return base::Done{};
}

base::Status<> map_unigram(const JsonObject& root, const JsonObject& model, uint64_t vocabulary,
                           Metadata& out) {
  KVICK_TRY(bool merges, map_charsmap(root, out));
  KVICK_TRY(const auto steps, steps_of(root, "pre_tokenizer", "pretokenizers"));
  bool marks = false;
  for (const JsonObject& step : steps) {
    KVICK_TRY(const std::string type, step.get_string("type"));
    KVICK_TRY(const std::string mark, step.get_string("replacement", std::string(kSpaceMark)));
    KVICK_TRY(const bool space, step.get_bool("add_prefix_space", true));
    KVICK_TRY(const std::string scheme,
              step.get_string("prepend_scheme", space ? "always" : "never"));
    const bool splits = type == "WhitespaceSplit";
    merges = merges || splits;
    marks = type == "Metaspace" && mark == kSpaceMark && scheme == "always";
    if (!splits && !marks)
      return base::fail("{} is not the WhitespaceSplit and Metaspace that kvick knows",
                        root.label("pre_tokenizer"));
  }
  if (!marks || !merges)
    return base::fail("{} and 'normalizer' do not put one mark for each stretch of white space",
                      root.label("pre_tokenizer"));
  KVICK_TRY(const uint64_t unknown, model.get_uint("unk_id"));
  if (unknown >= vocabulary)
    return base::fail("{} is {}, but the model's vocab_size is {}", model.label("unk_id"), unknown,
                      vocabulary);
  KVICK_TRY(const simdjson::dom::array list, model.get_array("vocab"));
  std::vector<float> scores;
  for (const Json element : list) {
    KVICK_TRY(const auto scored, read_scored(element, model));
    scores.push_back(static_cast<float>(scored.second));
  }
  scores.resize(vocabulary);
  out["tokenizer.ggml.model"].data = std::string("t5");
  out["tokenizer.ggml.pre"].data = std::string("default");
  out["tokenizer.ggml.scores"].data = std::move(scores);
  out["tokenizer.ggml.unknown_token_id"].data = unknown;
  out["tokenizer.ggml.add_space_prefix"].data = true;
  out["tokenizer.ggml.remove_extra_whitespaces"].data = true;
  return base::Done{};
}

base::Status<> map_wordpiece(const JsonObject& root, const JsonObject& model, Pieces& pieces,
                             Metadata& out) {
  KVICK_TRY_VOID(check_model(model));
  KVICK_TRY_VOID(map_normalizer(root, out));
  KVICK_TRY_VOID(require_type(root, "pre_tokenizer", "BertPreTokenizer"));
  KVICK_TRY(const std::string unknown, model.get_string("unk_token", "[UNK]"));
  const auto at = std::ranges::find(pieces.texts, unknown);
  if (at == pieces.texts.end())
    return base::fail("{} is {}, which the vocabulary does not have", model.label("unk_token"),
                      in_quotes(unknown));
  out["tokenizer.ggml.model"].data = std::string("bert");
  out["tokenizer.ggml.unknown_token_id"].data = static_cast<uint64_t>(at - pieces.texts.begin());
  for (size_t i = 0; i < pieces.texts.size(); ++i) {
    std::string& text = pieces.texts[i];
    if (pieces.kinds[i] != PieceKind::kNormal) continue;
    if (text.starts_with(kInside) && text.size() > kInside.size())
      text.erase(0, kInside.size());
    else
      text.insert(0, kSpaceMark);
  }
  return base::Done{};
}

}  // namespace kvick::io
