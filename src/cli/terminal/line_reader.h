#pragma once
// Lines that a person types, or that come through a pipe.

#include <filesystem>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::cli {

class LineReader {
 public:
  virtual ~LineReader() = default;
  // The next line, without its end; what was pasted may have ends of lines in it. Nothing: the
  // input has ended, or Ctrl-C was pressed in an empty line.
  virtual std::optional<std::string> read(const std::string& prompt) = 0;
  // Whether Ctrl-C cleared the line that read() was taking, which gave an empty one.
  virtual bool cleared() const { return false; }
  // Keeps a message for the arrow keys, here and in later runs.
  virtual void remember(const std::string& message) { static_cast<void>(message); }
};

// Takes lines as they come. prompts: shows them on stdout.
std::unique_ptr<LineReader> plain_reader(std::istream& in, bool prompts);

struct EditorOptions {
  std::filesystem::path history;  // a file; empty: the history ends with the program
  // What the text before the cursor may become; each begins with it.
  std::function<std::vector<std::string>(std::string_view before)> complete;
};

// Whether this kvick was built with libedit.
bool has_line_editing();

// The terminal at stdin and stdout, with the keys of a shell. Null without libedit, or where the
// terminal cannot do it.
std::unique_ptr<LineReader> editing_reader(EditorOptions options);

// What all of them begin with.
std::string common_beginning(std::span<const std::string> texts);

// Where the history of chats lies: ${XDG_STATE_HOME:-~/.local/state}/kvick/history. Empty if
// neither is known.
std::filesystem::path history_path();

}  // namespace kvick::cli
