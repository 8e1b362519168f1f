#pragma once
// Builds the output of a response as the answer arrives, and the events that report it.

#include <optional>
#include <string>
#include <string_view>

#include "server/answer/choice_text.h"
#include "server/request/json.h"
#include "server/responses/namespaces.h"

namespace kvick::server {

class ResponsesOutput {
 public:
  // number: the response's number in its ids. names: namespaces of the functions that may be
  // called; must outlive this.
  ResponsesOutput(std::string number, const Namespaces& names)
      : number_(std::move(number)), names_(names) {}

  // Returns an event with the next sequence_number. more: its other fields.
  std::string event(std::string_view type, Json more);
  // Returns events for new thoughts, text and calls, in this order.
  std::string add(const ChoiceText& added);
  // Ends the open item and returns its events. cut: the answer was cut off. A response has at least
  // one item: without any, it gets a message without text.
  std::string finish(bool cut);

  // Returns the items that have ended.
  const Json& items() const { return items_; }
  const std::string& thoughts() const { return thoughts_; }  // thoughts of all items

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
