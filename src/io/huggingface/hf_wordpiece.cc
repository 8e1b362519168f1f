#include "io/huggingface/hf_wordpiece.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "io/file/builder.h"

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

}  // namespace

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
