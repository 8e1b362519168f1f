// Line editing by libedit.

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <histedit.h>
#include <unistd.h>
#include <utility>

#include "cli/terminal/line_reader.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kHistoryLines = 1000;
constexpr size_t kMostPasted = 1 << 20;  // characters of one paste
// In this mode a terminal marks pasted text, so that line ends in it do not send the message.
constexpr const char *kMarkPastes = "\033[?2004h", *kPastesAsTyped = "\033[?2004l";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// libedit needs the terminal's character set to accept letters beyond ASCII.
void use_terminal_locale() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

class Editor : public LineReader {
 public:
  explicit Editor(EditorOptions options) : options_(std::move(options)) {}
  ~Editor() override {
    if (history_ != nullptr) history_end(history_);
    if (edit_ != nullptr) el_end(edit_);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  bool open();
  std::optional<std::string> read(const std::string& prompt) override;
  bool cleared() const override { return interrupted_; }
  void remember(const std::string& message) override;

 private:
  static Editor& of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  static char* show_prompt(EditLine* edit) { return of(edit).prompt_.data(); }
  static unsigned char on_interrupt(EditLine* edit, int);
  static unsigned char on_paste(EditLine* edit, int);
  static unsigned char on_complete(EditLine* edit, int);
  void bind_keys();
  void open_history();

  EditorOptions options_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
  bool interrupted_ = false;
};

bool Editor::open() {
  use_terminal_locale();
  edit_ = el_init("kvick", stdin, stdout, stderr);
  if (edit_ == nullptr) return false;
  el_set(edit_, EL_CLIENTDATA, static_cast<void*>(this));
  el_set(edit_, EL_PROMPT, &show_prompt);
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_SIGNAL, 1);
  bind_keys();
  open_history();
  return true;
}

void Editor::bind_keys() {
  // Ctrl-C is read as a key: it clears the line, or leaves if the line is empty.
  el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
  el_set(edit_, EL_ADDFN, "kvick-interrupt", "clear the line, or leave", &on_interrupt);
  el_set(edit_, EL_BIND, "^C", "kvick-interrupt", nullptr);
  el_set(edit_, EL_ADDFN, "kvick-paste", "take pasted text as it is", &on_paste);
  el_set(edit_, EL_BIND, "\\e[200~", "kvick-paste", nullptr);
  el_set(edit_, EL_ADDFN, "kvick-complete", "complete a command", &on_complete);
  el_set(edit_, EL_BIND, "^I", "kvick-complete", nullptr);
  el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

void Editor::open_history() {
  history_ = history_init();
  if (history_ == nullptr) return;
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(edit_, EL_HIST, &history, history_);
  if (options_.history.empty()) return;
  std::error_code none;
  fs::create_directories(options_.history.parent_path(), none);
  history(history_, &event, H_LOAD, options_.history.c_str());
}

void Editor::remember(const std::string& message) {
  if (history_ == nullptr || message.empty()) return;
  HistEvent event;
  history(history_, &event, H_ENTER, message.c_str());
  if (!options_.history.empty()) history(history_, &event, H_SAVE, options_.history.c_str());
}

std::optional<std::string> Editor::read(const std::string& prompt) {
  prompt_ = prompt;
  interrupted_ = false;
  fmt::print("{}", kMarkPastes);
  std::fflush(stdout);
  // Prepares the terminal before the prompt is shown, because keys may come right after it. libedit
  // would do this only with the first key.
  el_set(edit_, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = el_gets(edit_, &count);
  std::optional<std::string> line;
  if (text != nullptr && count > 0) line.emplace(text, static_cast<size_t>(count));
  fmt::print("{}{}", kPastesAsTyped, line && !interrupted_ ? "" : "\n");
  std::fflush(stdout);
  if (interrupted_ && line) return std::string();
  if (line && line->ends_with('\n')) line->pop_back();
  return line;
}

unsigned char Editor::on_interrupt(EditLine* edit, int) {
  const LineInfoW* line = el_wline(edit);
  if (line->lastchar == line->buffer) return CC_EOF;
  of(edit).interrupted_ = true;
  return CC_NEWLINE;
}

unsigned char Editor::on_paste(EditLine* edit, int) {
  std::wstring text;
  wchar_t next = 0;
  while (text.size() < kMostPasted && el_wgetc(edit, &next) == 1) {
    text += next == L'\r' ? L'\n' : next;
    if (text.ends_with(kPasteEnd)) {
      text.resize(text.size() - kPasteEnd.size());
      break;
    }
  }
  // Line ends after the last line are not part of the message.
  while (text.ends_with(L'\n')) text.pop_back();
  if (!text.empty() && el_winsertstr(edit, text.c_str()) != 0) return CC_ERROR;
  return CC_REFRESH;
}

unsigned char Editor::on_complete(EditLine* edit, int) {
  const Editor& self = of(edit);
  const LineInfo* line = el_line(edit);
  const std::string before(line->buffer, line->cursor);
  const auto found =
      self.options_.complete ? self.options_.complete(before) : std::vector<std::string>();
  const std::string all = common_beginning(found);
  if (all.size() > before.size()) {
    el_insertstr(edit, all.substr(before.size()).c_str());
    return CC_REFRESH;
  }
  if (found.size() < 2) return CC_ERROR;
  fmt::print("\n{}\n", fmt::join(found, "  "));
  std::fflush(stdout);
  return CC_REDISPLAY;
}

}  // namespace

bool has_line_editing() { return true; }

std::unique_ptr<LineReader> editing_reader(EditorOptions options) {
  auto editor = std::make_unique<Editor>(std::move(options));
  if (!editor->open()) return nullptr;
  return editor;
}

}  // namespace kvick::cli
