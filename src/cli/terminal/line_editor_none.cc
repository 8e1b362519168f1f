// Used in builds without libedit: lines are read as the terminal delivers them.

#include "cli/terminal/line_reader.h"

namespace kvick::cli {

bool has_line_editing() { return false; }

std::unique_ptr<LineReader> editing_reader(EditorOptions) { return nullptr; }

}  // namespace kvick::cli
