#pragma once
// Joins typed lines into messages.

#include <optional>
#include <string>
#include <string_view>

namespace kvick::cli {

// A line that ends with \ continues on the next line. With blocks, """ begins a message of several
// lines and """ at the end of a line ends it.
class MessageLines {
 public:
  explicit MessageLines(bool blocks) : blocks_(blocks) {}

  // Takes a line. Returns the message if this line completes it, else nothing.
  std::optional<std::string> add(std::string_view line);
  // Call at the end of the input. Returns the unfinished message, if there is one.
  std::optional<std::string> finish();
  bool begun() const { return begun_; }

 private:
  std::optional<std::string> complete();

  bool blocks_;
  bool begun_ = false, in_block_ = false;
  std::string message_;
};

}  // namespace kvick::cli
