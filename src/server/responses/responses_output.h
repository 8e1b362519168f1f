#pragma once
// The output of a response as it grows, and the events that tell of it.

#include <optional>
#include <string>
#include <string_view>

#include "server/answer/choice_text.h"
#include "server/request/json.h"
#include "server/responses/namespaces.h"

namespace kvick::server {

class ResponsesOutput {
 public:
  // number: of the response, as it stands in its ids. names: of functions that may be called;
  // outlives this.
  ResponsesOutput(std::string number, const Namespaces& names)
      : number_(std::move(number)), names_(names) {}

  // An event of the stream with the next sequence_number; more: its other fields.
  std::string event(std::string_view type, Json more);
  // Events of what is new, in the order thoughts, text, calls.
  std::string add(const ChoiceText& added);
  // Events of what is still open. cut: the answer ended before the model ended it. A response has
  // at least one item: without any it gets a message without text.
  std::string finish(bool cut);

  // The items that have ended.
  const Json& items() const { return items_; }
  const std::string& thoughts() const { return thoughts_; }  // of all items

 private:
  enum class Kind { kReasoning, kMessage };
  struct Open {
    Kind kind;
    std::string id, text;
  };

  std::string open(Kind kind);
  std::string close(std::string_view status);
  std::string grow(Kind kind, const std::string& text);
  std::string call(const ToolCall& call, bool cut);
  std::string id_of(std::string_view kind) const;
  Json item(const Open& open, std::string_view status) const;
  Json place(const std::string& id) const;

  std::string number_;
  const Namespaces& names_;
  Json items_ = Json::array();
  std::optional<Open> open_;
  std::string thoughts_;
  uint64_t events_ = 0;
};

}  // namespace kvick::server
