#include "server/openai/answer_forms.h"

#include <deque>
#include <mutex>

#include "text/forms/forms.h"
#include "text/grammar/grammar_constraint.h"
#include "text/schema/json_constraint.h"

namespace kvick::server {
namespace {

using Form = std::shared_ptr<const text::Constraint>;
using Tokens = std::shared_ptr<const text::TokenTrie>;

base::Result<text::Grammar> text_form(const Tokens& tokens, const Json& format) {
  const Json& type = format.at("type");
  const text::ByteSet& bytes = tokens->speakable();
  if (type == "regex") return text::regex_grammar(format.at("value").get<std::string>(), bytes);
  if (type == "grammar") return text::gbnf_grammar(format.at("grammar").get<std::string>(), bytes);
  return text::choice_grammar(format.at("choice").get<std::vector<std::string>>(), bytes);
}

base::Result<Form> make_form(const Tokens& tokens, const Json& format) {
  const Json& type = format.at("type");
  if (type == "json_object") return text::json_constraint(tokens, {{"type", "object"}});
  if (type == "json_schema")
    return text::json_constraint(tokens, format.at("json_schema").at("schema"));
  KVICK_TRY(text::Grammar grammar, text_form(tokens, format));
  return text::grammar_constraint(tokens, std::move(grammar));
}

// A cache of the most recently used forms. A form holds its masks and the known part of its
// automaton, up to tens of megabytes.
class Forms {
 public:
  static constexpr size_t kMost = 8;
  // Of a form's text; a form with a longer one is not cached.
  static constexpr size_t kMostBytes = 64 << 10;

  explicit Forms(Tokens tokens) : tokens_(std::move(tokens)) {}

  base::Result<Form> form(const Json& format) {
    std::string text = to_text(format);
    if (Form kept = find(text)) return kept;
    // Compiles without the lock, so that a slow form delays no other request.
    KVICK_TRY(Form made, make_form(tokens_, format));
    if (text.size() > kMostBytes) return made;
    if (Form kept = find(text)) return kept;  // another thread was faster
    const std::lock_guard lock(mutex_);
    kept_.push_front({std::move(text), made});
    if (kept_.size() > kMost) kept_.pop_back();
    return made;
  }

 private:
  // Returns the cached form and makes it the most recently used, or null.
  Form find(const std::string& text) {
    const std::lock_guard lock(mutex_);
    for (auto one = kept_.begin(); one != kept_.end(); ++one) {
      if (one->text != text) continue;
      Kept found = std::move(*one);
      kept_.erase(one);
      kept_.push_front(std::move(found));
      return kept_.front().form;
    }
    return nullptr;
  }

  struct Kept {
    std::string text;
    Form form;
  };
  const Tokens tokens_;
  std::mutex mutex_;
  std::deque<Kept> kept_;  // most recently used first
};

}  // namespace

MakeConstraint answer_forms(const text::Tokenizer& tokenizer) {
  auto tokens = text::TokenTrie::make(tokenizer);
  if (!tokens.ok())
    return [error = tokens.error()](const Json&) -> base::Result<Form> { return error; };
  return [forms = std::make_shared<Forms>(*std::move(tokens))](const Json& format) {
    return forms->form(format);
  };
}

}  // namespace kvick::server
