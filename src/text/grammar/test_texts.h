#pragma once
// Helpers for tests: checks which texts a grammar accepts.

#include <gtest/gtest.h>
#include <memory>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/grammar/byte_automaton.h"

namespace kvick::text {

// A compiled grammar and its automaton.
class GrammarTexts {
 public:
  // what: shown if the grammar could not be made.
  explicit GrammarTexts(base::Result<Grammar> made, std::string_view what = {}) {
    EXPECT_TRUE(made.ok()) << what << ": " << (made.ok() ? "" : made.error().message);
    automaton_ =
        std::make_unique<ByteAutomaton>(std::make_shared<const Grammar>(std::move(made).value()));
  }
  // Returns whether the text can be continued or is complete.
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

}  // namespace kvick::text
