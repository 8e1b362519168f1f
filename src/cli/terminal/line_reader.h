#pragma once
// Reads lines from a person at a terminal or from a pipe.

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
  // Returns the next line without its line end; pasted text may contain line ends. Returns nothing
  // at the end of the input, or if Ctrl-C was pressed on an empty line.
  virtual std::optional<std::string> read(const std::string& prompt) = 0;
  // Returns whether Ctrl-C cleared the line, so that read() returned an empty one.
  virtual bool cleared() const { return false; }
  // Adds a message to the history, for the arrow keys in this and later runs.
  virtual void remember(const std::string& message) { static_cast<void>(message); }
};

// Reads lines unedited. prompts: print the prompts on stdout.
std::unique_ptr<LineReader> plain_reader(std::istream& in, bool prompts);

struct EditorOptions {
  std::filesystem::path history;  // a file; empty: the history ends with the program
  // Returns the completions of the text before the cursor; each begins with that text.
  std::function<std::vector<std::string>(std::string_view before)> complete;
};

// Returns whether kvick was built with libedit.
bool has_line_editing();

// Returns a reader for the terminal at stdin and stdout, with a shell's editing keys. Null without
// libedit, or if the terminal does not support it.
std::unique_ptr<LineReader> editing_reader(EditorOptions options);

// Returns the longest common beginning.
std::string common_beginning(std::span<const std::string> texts);

// Returns the file of the chats' history: ${XDG_STATE_HOME:-~/.local/state}/kvick/history. Empty if
// neither XDG_STATE_HOME nor HOME is set.
std::filesystem::path history_path();

}  // namespace kvick::cli
