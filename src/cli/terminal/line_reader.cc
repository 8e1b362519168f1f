#include "cli/terminal/line_reader.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

class PlainReader : public LineReader {
 public:
  PlainReader(std::istream& in, bool prompts) : in_(in), prompts_(prompts) {}

  std::optional<std::string> read(const std::string& prompt) override {
    if (prompts_) {
      fmt::print("{}", prompt);
      std::fflush(stdout);
    }
    std::string line;
    if (std::getline(in_, line)) return line;
    if (prompts_) fmt::print("\n");
    return std::nullopt;
  }

 private:
  std::istream& in_;
  bool prompts_;
};

}  // namespace

std::unique_ptr<LineReader> plain_reader(std::istream& in, bool prompts) {
  return std::make_unique<PlainReader>(in, prompts);
}

std::string common_beginning(std::span<const std::string> texts) {
  if (texts.empty()) return {};
  std::string_view common = texts.front();
  for (const std::string& text : texts) {
    const auto differ = std::mismatch(common.begin(), common.end(), text.begin(), text.end());
    common = common.substr(0, static_cast<size_t>(differ.first - common.begin()));
  }
  return std::string(common);
}

fs::path history_path() {
  // The XDG base directory specification requires that a relative path is ignored.
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && fs::path(state).is_absolute())
    return fs::path(state) / "kvick" / "history";
  const char* home = std::getenv("HOME");
  if (!home || !*home) return {};
  return fs::path(home) / ".local" / "state" / "kvick" / "history";
}

}  // namespace kvick::cli
