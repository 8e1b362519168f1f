#include "io/huggingface/hf_tokenizer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file/builder.h"
#include "io/huggingface/hf_encoder_tokenizers.h"
#include "io/huggingface/hf_merges.h"
#include "io/huggingface/hf_postprocessor.h"
#include "io/huggingface/hf_pretokenizer.h"

namespace kvick::io {
namespace {

// tokenizer.json of Llama 3 has 9 MB; the other files have a hundredth of that.
constexpr uint64_t kMaxTokenizerBytes = 128 << 20, kMaxConfigBytes = 64 << 20;
constexpr size_t kMaxEndTokens = 64, kMaxAddedTokens = 64;
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

// Returns a token written as a string or as {"content": ...}; nullopt if there is none, which some
// files write as "".
base::Result<std::optional<std::string>> token_name(const JsonObject& config,
                                                    std::string_view key) {
  const auto element = config.find(key);
  if (!element) return std::optional<std::string>();
  std::string text;
  if (element->is_object()) {
    KVICK_TRY(const JsonObject token, config.get_object(key));
    KVICK_TRY(text, token.get_string("content"));
  } else {
    KVICK_TRY(text, config.get_string(key));
  }
  if (text.empty()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(text));
}

// A parsed file; an object without fields if the file does not exist.
struct Parsed {
  static base::Result<Parsed> from(const NamedText& file, uint64_t max_bytes) {
    KVICK_TRY(JsonDocument document,
              JsonDocument::parse(file.text.empty() ? "{}" : file.text, file.name, max_bytes));
    KVICK_TRY(JsonObject root, JsonObject::from(document.root(), file.name));
    return Parsed{std::move(document), std::move(root)};
  }
  JsonDocument document;
  JsonObject root;
};

class TokenizerMapper {
 public:
  TokenizerMapper(const JsonObject& tokenizer, const JsonObject& tokenizer_config,
                  uint64_t vocabulary, Metadata& out)
      : root_(tokenizer), config_(tokenizer_config), vocabulary_(vocabulary), out_(out) {}

  base::Status<> map_pieces();
  base::Status<> map_added_bos_eos();
  base::Status<> map_special_ids(std::span<const JsonObject> model_configs);
  base::Status<> map_chat_template(std::string_view jinja, const JsonObject& processor);
  void finish();

 private:
  template <typename T>
  void set(std::string_view key, T value) {
    out_[std::string(key)].data = std::move(value);
  }
  base::Status<> check_model(const JsonObject& model);
  base::Status<> read_vocabulary(const JsonObject& model);
  base::Status<> read_added_tokens();
  base::Status<> place_piece(std::string_view piece, uint64_t id, PieceKind kind,
                             const JsonObject& where);
  base::Status<> read_byte_level(const JsonObject& model);
  base::Status<> read_sentencepiece(const JsonObject& model);
  base::Result<std::vector<int64_t>> named_id(std::string_view key,
                                              const std::optional<std::string>& name) const;
  // The flag for BOS or EOS alone, and the key for a list of other tokens.
  struct Side {
    std::string_view flag, list;
  };
  base::Result<std::vector<int64_t>> ids_of(const std::vector<TemplateToken>& tokens) const;
  base::Status<> map_side(const std::vector<TemplateToken>& tokens, const Side& side,
                          std::optional<std::string>& known);

  const JsonObject& root_;
  const JsonObject& config_;
  uint64_t vocabulary_;
  Metadata& out_;
  std::string type_;  // "BPE", "WordPiece" or "Unigram"
  bool byte_fallback_ = false;
  SpacePrefix prefix_;                    // with byte_fallback_
  std::string unknown_;                   // the model's unk_token
  std::optional<std::string> bos_, eos_;  // their texts
  Pieces pieces_;
};

base::Status<> TokenizerMapper::check_model(const JsonObject& model) {
  KVICK_TRY(type_, model.get_string("type", "BPE"));  // old files omit it
  if (type_ == "WordPiece" || type_ == "Unigram") return base::Done{};
  if (type_ != "BPE")
    return base::fail("{} is {}; kvick reads BPE, WordPiece and Unigram tokenizers",
                      model.label("type"), in_quotes(type_));
  for (const std::string_view field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    KVICK_TRY(const std::string affix, model.get_string(field, ""));
    if (!affix.empty())
      return base::fail("{} is {}, which kvick does not support", model.label(field),
                        in_quotes(affix));
  }
  KVICK_TRY(byte_fallback_, model.get_bool("byte_fallback", false));
  KVICK_TRY(unknown_, model.get_string("unk_token", ""));
  return base::Done{};
}

base::Status<> TokenizerMapper::place_piece(std::string_view piece, uint64_t id, PieceKind kind,
                                            const JsonObject& where) {
  if (id >= vocabulary_)
    return base::fail("{}: token {} has the id {}, but the model's vocab_size is {}", where.name(),
                      in_quotes(piece), id, vocabulary_);
  if (pieces_.kinds[id] != PieceKind::kUnused && pieces_.texts[id] != piece)
    return base::fail("{}: tokens {} and {} both have the id {}", where.name(),
                      in_quotes(pieces_.texts[id]), in_quotes(piece), id);
  pieces_.texts[id] = piece;
  pieces_.kinds[id] = kind;
  return base::Done{};
}

base::Status<> TokenizerMapper::read_vocabulary(const JsonObject& model) {
  KVICK_TRY(const JsonObject vocabulary, model.get_object("vocab"));
  pieces_.texts.resize(vocabulary_);
  pieces_.kinds.assign(vocabulary_, PieceKind::kUnused);
  for (const auto& [piece, number] : vocabulary.fields()) {
    uint64_t id = 0;
    if (number.get(id) != simdjson::SUCCESS)
      return base::fail("{} must be a whole number, not negative", vocabulary.label(piece));
    const bool byte = byte_fallback_ && is_byte_piece(piece);
    KVICK_TRY_VOID(
        place_piece(piece, id, byte ? PieceKind::kByte : PieceKind::kNormal, vocabulary));
  }
  return base::Done{};
}

base::Status<> TokenizerMapper::read_added_tokens() {
  if (!root_.find("added_tokens")) return base::Done{};
  set("kvick.leftmost_wins", true);
  KVICK_TRY(const simdjson::dom::array added, root_.get_array("added_tokens"));
  // How to find the token in a text.
  struct Rule {
    std::string_view field, key;
    std::vector<int64_t> ids = {};
  };
  std::vector<Rule> rules = {{"lstrip", "kvick.strips_left_ids"},
                             {"rstrip", "kvick.strips_right_ids"},
                             {"single_word", "kvick.whole_word_ids"}};
  // If the normalizer puts a space before texts, it puts one before these tokens too, and
  // transformers finds them only behind a space, which is not what templates mean by them.
  if (!prefix_.normalizes) rules.push_back({"normalized", "kvick.normalized_ids"});
  for (const Json element : added) {
    KVICK_TRY(const JsonObject token, JsonObject::from(element, root_.label("added_tokens")));
    KVICK_TRY(const uint64_t id, token.get_uint("id"));
    KVICK_TRY(const std::string text, token.get_string("content"));
    KVICK_TRY(const bool special, token.get_bool("special", false));
    if (text.empty()) return base::fail("{} is empty", token.label("content"));
    PieceKind kind = special ? PieceKind::kControl : PieceKind::kUserDefined;
    if (byte_fallback_ && text == unknown_) kind = PieceKind::kUnknown;
    // A token of other models of the family, such as <image_soft_token> in Gemma 3 1B: this model's
    // embedding has no row for it.
    if (id >= vocabulary_) continue;
    // Gemma's runs of spaces: merges make them, and in answers they must become spaces again.
    if (byte_fallback_ && !special && pieces_.kinds[id] == PieceKind::kNormal &&
        pieces_.texts[id] == text && text.find(kSpaceMark) != std::string::npos)
      continue;
    KVICK_TRY_VOID(place_piece(text, id, kind, token));
    for (Rule& rule : rules) {
      KVICK_TRY(const bool holds, token.get_bool(rule.field, false));
      if (holds) rule.ids.push_back(static_cast<int64_t>(id));
    }
  }
  for (Rule& rule : rules)
    if (!rule.ids.empty()) set(rule.key, std::move(rule.ids));
  return base::Done{};
}

base::Status<> TokenizerMapper::read_byte_level(const JsonObject& model) {
  KVICK_TRY(const bool nfc, byte_level_nfc(root_));
  if (nfc) set("kvick.nfc", true);
  KVICK_TRY(const std::string pre, byte_level_pretokenizer(root_));
  KVICK_TRY(std::vector<std::string> merges, read_merges(model));
  set("tokenizer.ggml.model", std::string("gpt2"));
  // Other readers of a GGUF file made from the folder know its nearest relative only.
  const bool own = pre == "deepseek-v2";
  if (own) set("kvick.pre", pre);
  set("tokenizer.ggml.pre", own ? std::string("deepseek-llm") : pre);
  set("tokenizer.ggml.merges", std::move(merges));
  set("tokenizer.ggml.add_space_prefix", false);
  return base::Done{};
}

base::Status<> TokenizerMapper::read_sentencepiece(const JsonObject& model) {
  KVICK_TRY(std::vector<float> scores, scores_from_merges(model, pieces_));
  set("tokenizer.ggml.model", std::string("llama"));
  set("tokenizer.ggml.scores", std::move(scores));
  set("tokenizer.ggml.add_space_prefix", prefix_.added);
  if (prefix_.spared) set("kvick.space_prefix_spared", true);
  if (prefix_.once) set("kvick.space_prefix_once", true);
  return base::Done{};
}

base::Status<> TokenizerMapper::map_pieces() {
  KVICK_TRY(const JsonObject model, root_.get_object("model"));
  KVICK_TRY_VOID(check_model(model));
  KVICK_TRY_VOID(type_ == "Unigram" ? read_unigram_pieces(model, vocabulary_, pieces_)
                                    : read_vocabulary(model));
  if (byte_fallback_) {
    KVICK_TRY(prefix_, sentencepiece_prefix(root_));
  }
  KVICK_TRY_VOID(read_added_tokens());
  if (type_ == "WordPiece") return map_wordpiece(root_, model, pieces_, out_);
  if (type_ == "Unigram") return map_unigram(root_, model, vocabulary_, out_);
  return byte_fallback_ ? read_sentencepiece(model) : read_byte_level(model);
}

// Returns a list with the token's id; empty if there is no name, or padding or unknown is missing.
base::Result<std::vector<int64_t>> TokenizerMapper::named_id(
    std::string_view key, const std::optional<std::string>& name) const {
  if (!name) return std::vector<int64_t>();
  const auto at = std::ranges::find(pieces_.texts, *name);
  if (at != pieces_.texts.end()) return std::vector<int64_t>{at - pieces_.texts.begin()};
  // transformers would add a missing token after the vocabulary. Padding and unknown tokens are
  // never needed here.
  if (key == "pad_token" || key == "unk_token") return std::vector<int64_t>();
  return base::fail("{} is {}, which {} does not have", config_.label(key), in_quotes(*name),
                    root_.name());
}

// Appends the ids of an eos_token_id or bos_token_id: a number or a list of numbers.
base::Status<> append_ids(const JsonObject& config, std::string_view key, uint64_t vocabulary,
                          std::vector<int64_t>& ids) {
  const auto element = config.find(key);
  if (!element) return base::Done{};
  std::vector<uint64_t> found;
  if (element->is_array()) {
    KVICK_TRY(const simdjson::dom::array list, config.get_array(key));
    for (const Json item : list)
      if (item.get(found.emplace_back()) != simdjson::SUCCESS)
        return base::fail("{} must hold whole numbers, not negative", config.label(key));
  } else {
    KVICK_TRY(const uint64_t id, config.get_uint(key));
    found.push_back(id);
  }
  if (found.size() > kMaxEndTokens)
    return base::fail("{} holds {} ids; at most {} are read", config.label(key), found.size(),
                      kMaxEndTokens);
  for (const uint64_t id : found) {
    if (id >= vocabulary)
      return base::fail("{} is {}, but the model's vocab_size is {}", config.label(key), id,
                        vocabulary);
    const auto value = static_cast<int64_t>(id);
    if (std::ranges::find(ids, value) == ids.end()) ids.push_back(value);
  }
  return base::Done{};
}

// The tokenizer's own name of a token takes precedence over the ids of generation_config.json and
// config.json.
base::Status<> TokenizerMapper::map_special_ids(std::span<const JsonObject> model_configs) {
  struct Special {
    std::string_view name, id_field, key;
    std::optional<std::string> text;
  };
  KVICK_TRY(const auto unknown, token_name(config_, "unk_token"));
  KVICK_TRY(const auto padding, token_name(config_, "pad_token"));
  const std::array<Special, 4> specials = {
      {{"bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id", bos_},
       {"eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id", eos_},
       {"unk_token", "", "tokenizer.ggml.unknown_token_id", unknown},
       {"pad_token", "", "tokenizer.ggml.padding_token_id", padding}}};
  for (const auto& [name, id_field, key, text] : specials) {
    KVICK_TRY(std::vector<int64_t> ids, named_id(name, text));
    if (!id_field.empty())
      for (const JsonObject& config : model_configs)
        KVICK_TRY_VOID(append_ids(config, id_field, vocabulary_, ids));
    if (ids.empty()) continue;
    set(key, static_cast<uint64_t>(ids.front()));
    if (name == "eos_token" && ids.size() > 1) set("kvick.eos_token_ids", std::move(ids));
  }
  return base::Done{};
}

// Returns the ids of the tokens on one side of a text.
base::Result<std::vector<int64_t>> TokenizerMapper::ids_of(
    const std::vector<TemplateToken>& tokens) const {
  std::vector<int64_t> out;
  for (const TemplateToken& token : tokens) {
    std::vector<uint64_t> ids = token.ids;
    const auto at = std::ranges::find(pieces_.texts, token.name);
    if (ids.empty() && !token.name.empty() && at != pieces_.texts.end())
      ids.push_back(static_cast<uint64_t>(at - pieces_.texts.begin()));
    if (ids.empty() || *std::ranges::max_element(ids) >= vocabulary_)
      return base::fail("{} adds the token {}, which the vocabulary does not have",
                        root_.label("post_processor"), in_quotes(token.name));
    out.insert(out.end(), ids.begin(), ids.end());
  }
  if (out.size() > kMaxAddedTokens)
    return base::fail("{} adds {} tokens on one side of a text; at most {} are read",
                      root_.label("post_processor"), out.size(), kMaxAddedTokens);
  return out;
}

// BOS or EOS alone becomes a flag, which tokenizer_config.json may change; other tokens are listed.
// known: the name of BOS or EOS.
base::Status<> TokenizerMapper::map_side(const std::vector<TemplateToken>& tokens, const Side& side,
                                         std::optional<std::string>& known) {
  KVICK_TRY(std::vector<int64_t> ids, ids_of(tokens));
  bool added = false;
  if (ids.size() == 1) {
    const std::string& text = pieces_.texts[static_cast<size_t>(ids[0])];
    if (!known) known = text;  // tokenizer_config.json has no name
    added = text == *known;
  }
  if (!ids.empty() && !added) {
    set(side.list, std::move(ids));
  } else {
    KVICK_TRY(added, config_.get_bool(side.flag, added));
  }
  set("tokenizer.ggml." + std::string(side.flag), added);
  return base::Done{};
}

base::Status<> TokenizerMapper::map_added_bos_eos() {
  KVICK_TRY(bos_, token_name(config_, "bos_token"));
  KVICK_TRY(eos_, token_name(config_, "eos_token"));
  KVICK_TRY(const PostProcessor around, read_post_processor(root_));
  if (around.between > 1) set("tokenizer.ggml.add_sep_token", true);
  KVICK_TRY_VOID(map_side(around.before, {"add_bos_token", "kvick.before_ids"}, bos_));
  return map_side(around.behind, {"add_eos_token", "kvick.behind_ids"}, eos_);
}

base::Status<> TokenizerMapper::map_chat_template(std::string_view jinja,
                                                  const JsonObject& processor) {
  if (!jinja.empty()) {
    set("tokenizer.chat_template", std::string(jinja));
    return base::Done{};
  }
  const auto element = config_.find("chat_template");
  if (!element && !processor.find("chat_template")) return base::Done{};
  if (!element || !element->is_array()) {
    KVICK_TRY(std::string text, (element ? config_ : processor).get_string("chat_template"));
    set("tokenizer.chat_template", std::move(text));
    return base::Done{};
  }
  KVICK_TRY(const simdjson::dom::array list, config_.get_array("chat_template"));
  for (const Json item : list) {
    KVICK_TRY(const JsonObject named, JsonObject::from(item, config_.label("chat_template")));
    KVICK_TRY(const std::string name, named.get_string("name"));
    KVICK_TRY(std::string text, named.get_string("template"));
    set("tokenizer.chat_template" + (name == "default" ? "" : "." + name), std::move(text));
  }
  return base::Done{};
}

void TokenizerMapper::finish() {
  std::vector<int64_t> kinds(vocabulary_);
  for (uint64_t id = 0; id < vocabulary_; ++id) {
    kinds[id] = static_cast<int64_t>(pieces_.kinds[id]);
    if (pieces_.kinds[id] == PieceKind::kUnused) pieces_.texts[id] = fmt::format("[PAD{}]", id);
  }
  set("tokenizer.ggml.tokens", std::move(pieces_.texts));
  set("tokenizer.ggml.token_type", std::move(kinds));
}

}  // namespace

base::Status<> map_tokenizer(const HfTokenizerFiles& files, const HfConfig& config,
                             const JsonObject& config_json, Metadata& out) {
  KVICK_TRY(const Parsed tokenizer, Parsed::from(files.tokenizer, kMaxTokenizerBytes));
  KVICK_TRY(const Parsed tokenizer_config, Parsed::from(files.tokenizer_config, kMaxConfigBytes));
  KVICK_TRY(const Parsed generation, Parsed::from(files.generation_config, kMaxConfigBytes));
  KVICK_TRY(const Parsed processor, Parsed::from(files.processor_template, kMaxConfigBytes));
  TokenizerMapper mapper(tokenizer.root, tokenizer_config.root, config.vocabulary, out);
  KVICK_TRY_VOID(mapper.map_pieces());
  KVICK_TRY_VOID(mapper.map_added_bos_eos());
  const std::array<JsonObject, 2> model_configs = {generation.root, config_json};
  KVICK_TRY_VOID(mapper.map_special_ids(model_configs));
  KVICK_TRY_VOID(mapper.map_chat_template(files.chat_template.text, processor.root));
  mapper.finish();
  return base::Done{};
}

}  // namespace kvick::io
