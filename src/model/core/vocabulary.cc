#include "model/core/vocabulary.h"

#include <algorithm>
#include <array>

#include "text/template/chat_template.h"
#include "text/tokenizer/pretokenize.h"

namespace kvick::model {
namespace {

using text::Token;
using text::TokenKind;

base::Result<std::optional<Token>> read_id(const io::ModelFile& file, std::string_view key) {
  if (!file.metadata().contains(key)) return std::optional<Token>();
  KVICK_TRY(const uint64_t id, file.get_uint(key));
  if (id > INT32_MAX)
    return base::fail("{}: {} is {}, which is no token's number", file.path(), key, id);
  return std::optional<Token>(static_cast<Token>(id));
}

// Reads the special tokens of encoders: before a text, after it and between two texts. If the file
// does not give BERT's [CLS] and [SEP], they have the ids of BERT's first vocabulary.
base::Status<> read_pair_ids(const io::ModelFile& file, text::Vocabulary& v) {
  KVICK_TRY(const std::optional<Token> cls, read_id(file, "tokenizer.ggml.cls_token_id"));
  KVICK_TRY(v.separator, read_id(file, "tokenizer.ggml.separator_token_id"));
  if (!v.separator) {  // the spelling that GGUF files use
    KVICK_TRY(v.separator, read_id(file, "tokenizer.ggml.seperator_token_id"));
  }
  if (v.model == "bert") {
    if (cls) v.bos = cls;
    if (v.separator) v.eos = v.separator;
    v.bos = v.bos.value_or(101);
    v.eos = v.eos.value_or(102);
    v.unknown = v.unknown.value_or(100);
  } else if (v.model == "t5") {
    v.eos = v.eos.value_or(1);
    v.unknown = v.unknown.value_or(2);
  }
  if (!v.separator) v.separator = v.eos;
  return base::Done{};
}

base::Status<> read_ids(const io::ModelFile& file, text::Vocabulary& v) {
  const std::pair<const char*, std::optional<Token>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &v.bos},
      {"tokenizer.ggml.eos_token_id", &v.eos},
      {"tokenizer.ggml.eot_token_id", &v.eot},
      {"tokenizer.ggml.unknown_token_id", &v.unknown},
      {"tokenizer.ggml.padding_token_id", &v.pad},
      {"tokenizer.ggml.fim_pre_token_id", &v.fill_in.prefix},
      {"tokenizer.ggml.fim_suf_token_id", &v.fill_in.suffix},
      {"tokenizer.ggml.fim_mid_token_id", &v.fill_in.middle},
      {"tokenizer.ggml.fim_rep_token_id", &v.fill_in.repository},
      {"tokenizer.ggml.fim_sep_token_id", &v.fill_in.file}};
  for (const auto& [key, id] : ids) {
    KVICK_TRY(*id, read_id(file, key));
  }
  // The names of these keys in the first files.
  const std::pair<const char*, std::optional<Token>*> old_ids[] = {
      {"tokenizer.ggml.prefix_token_id", &v.fill_in.prefix},
      {"tokenizer.ggml.suffix_token_id", &v.fill_in.suffix},
      {"tokenizer.ggml.middle_token_id", &v.fill_in.middle}};
  for (const auto& [key, id] : old_ids) {
    if (*id) continue;
    KVICK_TRY(*id, read_id(file, key));
  }
  // Ends a message but not the turn, as in a message with tool calls (GLM-4, Llama 3.1).
  KVICK_TRY(const std::optional<Token> eom, read_id(file, "tokenizer.ggml.eom_token_id"));
  if (eom) v.ends.push_back(*eom);
  KVICK_TRY_VOID(read_pair_ids(file, v));
  if (v.model == "llama" && v.pieces.size() > 2) {  // SentencePiece's default ids
    v.unknown = v.unknown.value_or(0);
    v.bos = v.bos.value_or(1);
    v.eos = v.eos.value_or(2);
  }
  return base::Done{};
}

// Reads what only Hugging Face folders say; see io/huggingface/hf_tokenizer.h.
base::Status<> read_folder_keys(const io::ModelFile& file, text::Vocabulary& v) {
  const std::pair<const char*, std::vector<Token>*> lists[] = {
      {"kvick.eos_token_ids", &v.ends},
      {"kvick.before_ids", &v.before},
      {"kvick.behind_ids", &v.behind},
      {"kvick.strips_left_ids", &v.strips_left},
      {"kvick.strips_right_ids", &v.strips_right},
      {"kvick.whole_word_ids", &v.whole_words},
      {"kvick.normalized_ids", &v.normalized}};
  for (const auto& [key, list] : lists)
    if (const std::vector<int64_t>* ids = file.get_ints(key))
      for (const int64_t id : *ids) list->push_back(static_cast<Token>(id));
  KVICK_TRY(v.leftmost_wins, file.get_bool("kvick.leftmost_wins", false));
  KVICK_TRY(v.nfc, file.get_bool("kvick.nfc", false));
  KVICK_TRY(v.space_prefix_spared, file.get_bool("kvick.space_prefix_spared", false));
  KVICK_TRY(v.space_prefix_once, file.get_bool("kvick.space_prefix_once", false));
  return base::Done{};
}

// Reads the tokens that answers do not have. Files may list tokens of other models of the family,
// which this vocabulary has not.
base::Status<> read_suppressed(const io::ModelFile& file, text::Vocabulary& v) {
  const std::pair<const char*, std::vector<Token>*> lists[] = {
      {"tokenizer.ggml.suppress_tokens", &v.suppressed},
      {"kvick.begin_suppress_tokens", &v.suppressed_first}};
  for (const auto& [key, list] : lists) {
    if (!file.metadata().contains(key)) continue;
    const std::vector<int64_t>* ids = file.get_ints(key);
    if (ids == nullptr) return base::fail("{}: {} is not an array of integers", file.path(), key);
    for (const int64_t id : *ids)
      if (id >= 0 && static_cast<size_t>(id) < v.pieces.size())
        list->push_back(static_cast<Token>(id));
  }
  return base::Done{};
}

base::Status<> read_kinds(const io::ModelFile& file, text::Vocabulary& v) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  v.kinds.assign(v.pieces.size(), TokenKind::kNormal);
  if (!file.metadata().contains(kKey)) return base::Done{};
  const std::vector<int64_t>* types = file.get_ints(kKey);
  if (!types) return base::fail("{}: {} is not an array of integers", file.path(), kKey);
  // GGUF's numbers; 0 means undefined.
  constexpr std::array kKinds = {TokenKind::kUnused,  TokenKind::kNormal,      TokenKind::kUnknown,
                                 TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnused,
                                 TokenKind::kByte};
  v.kinds.clear();
  for (const int64_t type : *types) {
    if (type < 0 || type >= static_cast<int64_t>(kKinds.size()))
      return base::fail("{}: {} has {} for token {}; 0 to 6 are known", file.path(), kKey, type,
                        v.kinds.size());
    v.kinds.push_back(kKinds[static_cast<size_t>(type)]);
  }
  return base::Done{};
}

base::Status<> read_flags(const io::ModelFile& file, text::Vocabulary& v) {
  const text::PreTokenizer* pre = text::find_pre_tokenizer(v.pre);
  const bool family_adds_bos =
      v.model == "llama" || v.model == "gemma4" || (v.model == "gpt2" && pre && pre->adds_bos);
  KVICK_TRY(v.add_bos, file.get_bool("tokenizer.ggml.add_bos_token", family_adds_bos && v.bos));
  KVICK_TRY(v.add_eos, file.get_bool("tokenizer.ggml.add_eos_token", v.model == "t5"));
  KVICK_TRY(v.add_space_prefix, file.get_bool("tokenizer.ggml.add_space_prefix",
                                              v.model == "llama" || v.model == "t5"));
  const bool roberta = v.pre == "roberta-bpe" || v.pre == "jina-v1-en" || v.pre == "jina-v2-code";
  KVICK_TRY(v.add_separator, file.get_bool("tokenizer.ggml.add_sep_token", roberta && v.separator));
  // BERT: [CLS] text [SEP], and another [SEP] after a second text.
  if (v.model == "bert") v.add_bos = v.add_eos = true, v.add_separator = false;
  KVICK_TRY(v.lowercase, file.get_bool("tokenizer.ggml.normalizer.lowercase", true));
  KVICK_TRY(v.strip_accents, file.get_bool("tokenizer.ggml.normalizer.strip_accents", v.lowercase));
  KVICK_TRY(v.merge_spaces, file.get_bool("tokenizer.ggml.remove_extra_whitespaces", true));
  return base::Done{};
}

// Reads an array of bytes, signed or not.
base::Status<> read_charsmap(const io::ModelFile& file, text::Vocabulary& v) {
  constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
  if (!file.metadata().contains(kKey)) return base::Done{};
  const std::vector<int64_t>* bytes = file.get_ints(kKey);
  if (bytes == nullptr) return base::fail("{}: {} is not an array of bytes", file.path(), kKey);
  for (const int64_t byte : *bytes) {
    if (byte < -128 || byte > 255)
      return base::fail("{}: {} has {}, which is no byte", file.path(), kKey, byte);
    v.charsmap += static_cast<char>(byte);
  }
  return base::Done{};
}

// All but three of Phi-3's special tokens remove the white space after them. GGUF has no field for
// that, so this checks the model's name, as llama.cpp does.
base::Status<> read_strips(const io::ModelFile& file, text::Vocabulary& v) {
  if (!v.strips_right.empty()) return base::Done{};  // a folder lists them
  KVICK_TRY(std::string name, file.get_string("general.name", std::string()));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos)
    return base::Done{};
  for (size_t i = 0; i < std::min(v.pieces.size(), v.kinds.size()); ++i) {
    const TokenKind kind = v.kinds[i];
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUserDefined ||
                         kind == TokenKind::kUnknown;
    const std::string& piece = v.pieces[i];
    if (special && piece != "<unk>" && piece != "<s>" && piece != "<|endoftext|>")
      v.strips_right.push_back(static_cast<Token>(i));
  }
  return base::Done{};
}

// Returns a template's source as a part of another: without its last line end, which Jinja drops
// only at the end of the whole, and with an empty print on each side, next to which Jinja's rules
// for white space beside tags do not apply.
std::string as_part(std::string source) {
  if (source.ends_with('\n')) source.pop_back();
  if (source.ends_with('\r')) source.pop_back();
  return "{{ '' }}" + source + "{{ '' }}";
}

// Some files have a template of their own for requests with tools, named as in transformers, which
// chooses it in the same way. One that cannot be read refuses such requests only.
base::Status<> add_tool_template(const io::ModelFile& file, text::Vocabulary& v) {
  KVICK_TRY(std::string tools, file.get_string("tokenizer.chat_template.tool_use", std::string()));
  if (tools.empty() || v.chat_template.empty()) return base::Done{};
  if (const auto parsed = text::ChatTemplate::parse(tools); !parsed.ok()) {
    std::string why = parsed.error().message;
    std::erase_if(why, [](char c) { return c == '\'' || c == '\\' || c == '\n'; });
    tools = fmt::format("{{{{ raise_exception('the template tool_use: {}') }}}}", why);
  }
  v.chat_template = "{% if tools %}" + as_part(std::move(tools)) + "{% else %}" +
                    as_part(std::move(v.chat_template)) + "{% endif %}";
  return base::Done{};
}

// Reads a list that may be absent but must not have another element type.
template <typename T>
base::Status<> read_list(const io::ModelFile& file, std::string_view key,
                         const std::vector<T>* list, std::vector<T>& out) {
  if (list) {
    out = *list;
  } else if (file.metadata().contains(key)) {
    return base::fail("{}: {} is an array of another type", file.path(), key);
  }
  return base::Done{};
}

}  // namespace

base::Result<text::Vocabulary> read_vocabulary(const io::ModelFile& file) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens", kScores = "tokenizer.ggml.scores",
                             kMerges = "tokenizer.ggml.merges";
  text::Vocabulary v;
  if (file.container() == io::Container::kHuggingFace &&
      !file.metadata().contains("tokenizer.ggml.model"))
    return base::fail(
        "{}: the folder has no tokenizer.json, the only tokenizer that kvick reads from folders: "
        "save it with transformers, or use a GGUF file",
        file.path());
  KVICK_TRY(v.model, file.get_string("tokenizer.ggml.model"));
  KVICK_TRY(const std::string pre, file.get_string("tokenizer.ggml.pre", std::string()));
  KVICK_TRY(v.pre, file.get_string("kvick.pre", pre));
  KVICK_TRY(v.chat_template, file.get_string("tokenizer.chat_template", std::string()));
  const std::vector<std::string>* pieces = file.get_strings(kTokens);
  if (!pieces)
    return base::fail("{}: {} is not there or no array of strings", file.path(), kTokens);
  v.pieces = *pieces;
  KVICK_TRY_VOID(read_kinds(file, v));
  if (v.model == "llama" || v.model == "t5")
    KVICK_TRY_VOID(read_list(file, kScores, file.get_floats(kScores), v.scores));
  if (v.model == "gpt2" || v.model == "gemma4")
    KVICK_TRY_VOID(read_list(file, kMerges, file.get_strings(kMerges), v.merges));
  KVICK_TRY_VOID(read_ids(file, v));
  KVICK_TRY_VOID(read_folder_keys(file, v));
  KVICK_TRY_VOID(read_suppressed(file, v));
  KVICK_TRY_VOID(read_flags(file, v));
  KVICK_TRY_VOID(read_strips(file, v));
  if (v.model == "t5") KVICK_TRY_VOID(read_charsmap(file, v));
  KVICK_TRY_VOID(add_tool_template(file, v));
  KVICK_TRY(v.pair_template, file.get_string("tokenizer.chat_template.rerank", std::string()));
  return v;
}

}  // namespace kvick::model
