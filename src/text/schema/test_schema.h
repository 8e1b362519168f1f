#pragma once
// Schemas against texts, for tests.

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>

#include "text/grammar/byte_automaton.h"
#include "text/schema/json_grammar.h"

namespace kvick::text {

inline ByteSet all_bytes() { return ByteSet().set(); }

// A schema that is compiled once.
class SchemaTexts {
 public:
  explicit SchemaTexts(std::string_view schema, const JsonLayout& layout = {}) {
    auto made = json_grammar(Json::parse(schema), layout, all_bytes());
    EXPECT_TRUE(made.ok()) << schema << ": " << (made.ok() ? "" : made.error().message);
    automaton_ =
        std::make_unique<ByteAutomaton>(std::make_shared<const Grammar>(std::move(made).value()));
  }
  // The text can be gone on with, or is whole.
  bool begins(std::string_view text) { return node_of(text) != ByteAutomaton::kDead; }
  bool takes(std::string_view text) {
    const auto node = node_of(text);
    return node != ByteAutomaton::kDead && automaton_->complete(node);
  }
  ByteAutomaton& automaton() { return *automaton_; }

 private:
  ByteAutomaton::Node node_of(std::string_view text) {
    auto node = automaton_->start();
    for (const char byte : text) {
      node = automaton_->step(node, static_cast<uint8_t>(byte));
      if (node == ByteAutomaton::kDead) break;
    }
    return node;
  }
  std::unique_ptr<ByteAutomaton> automaton_;
};

inline std::string schema_error(std::string_view schema) {
  const auto made = json_grammar(Json::parse(schema), {}, all_bytes());
  return made.ok() ? "no error" : made.error().message;
}

inline void expect_texts(std::string_view schema, const std::vector<std::string>& takes,
                         const std::vector<std::string>& refuses) {
  SchemaTexts texts(schema);
  for (const std::string& text : takes) EXPECT_TRUE(texts.takes(text)) << schema << ": " << text;
  for (const std::string& text : refuses) EXPECT_FALSE(texts.takes(text)) << schema << ": " << text;
}

}  // namespace kvick::text
