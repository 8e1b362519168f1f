#pragma once
// Lines as they are typed, put together to messages.

#include <optional>
#include <string>
#include <string_view>

namespace kvick::cli {

// A line that ends with \ goes on in the next. With blocks, """ begins a message of several lines,
// and """ at the end of a line ends it.
class MessageLines {
 public:
  explicit MessageLines(bool blocks) : blocks_(blocks) {}

  // Takes a line. The message that is complete with it, or nothing: more lines belong to it.
  std::optional<std::string> add(std::string_view line);
  // The input has ended: what was begun.
  std::optional<std::string> finish();
  bool begun() const { return begun_; }

 private:
  std::optional<std::string> complete();

  bool blocks_;
  bool begun_ = false, in_block_ = false;
  std::string message_;
};

}  // namespace kvick::cli
