#include "engine/answer/pair.h"

namespace kvick::engine {
namespace {

// Replaces {query} and {document} by the texts. Such names inside the texts are left alone.
std::string filled(std::string_view form, std::string_view query, std::string_view document) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  std::string out;
  while (!form.empty()) {
    const bool is_query = form.starts_with(kQuery), is_document = form.starts_with(kDocument);
    out += is_query ? query : is_document ? document : form.substr(0, 1);
    form.remove_prefix(is_query ? kQuery.size() : is_document ? kDocument.size() : 1);
  }
  return out;
}

}  // namespace

TextPair encode_pair(const text::Tokenizer& tokenizer, std::string_view query,
                     std::string_view document) {
  const text::Vocabulary& v = tokenizer.vocabulary();
  TextPair pair;
  if (!v.pair_template.empty()) {
    pair.tokens = tokenizer.encode(filled(v.pair_template, query, document), false, true);
    pair.second = static_cast<uint32_t>(pair.tokens.size());
    return pair;
  }
  const auto add = [&](std::string_view text) {
    const std::vector<text::Token> tokens = tokenizer.encode(text, false, false);
    pair.tokens.insert(pair.tokens.end(), tokens.begin(), tokens.end());
    pair.tokens.insert(pair.tokens.end(), tokenizer.behind().begin(), tokenizer.behind().end());
  };
  pair.tokens = tokenizer.before();
  add(query);
  if (v.add_separator) pair.tokens.push_back(*v.separator);
  pair.second = static_cast<uint32_t>(pair.tokens.size());
  add(document);
  return pair;
}

}  // namespace kvick::engine
