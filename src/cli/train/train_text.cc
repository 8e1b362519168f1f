#include "cli/train/train_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include "base/text_file.h"

namespace kvick::cli {

std::string TextFlags::text_name() const { return std::filesystem::path(file).filename().string(); }

void add_text_flags(const Command& command, TextFlags& flags, const std::string& help) {
  add_model_flags(command, flags.engine);
  command.add_option("-f,--file", flags.file, help).takes(ValueKind::kFile).required();
}

void add_output(const Command& command, TextFlags& flags, const std::string& help) {
  command.add_option("-o,--output", flags.output, help).takes(ValueKind::kFile).required();
}

base::Status<> check_output(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return base::fail("cannot write {}: it is a folder; -o names a file", path);
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (::access(folder.c_str(), W_OK) != 0)
    return base::fail("cannot write {}: {}; -o names another file", path, std::strerror(errno));
  return base::Done{};
}

base::Result<OpenText> open_text(const TextFlags& flags, const Common& common) {
  KVICK_TRY(const std::string text, base::read_text(flags.file));
  if (!flags.output.empty()) KVICK_TRY_VOID(check_output(flags.output));
  OpenText opened;
  KVICK_TRY(opened.engine, open_engine(flags.engine, common));
  opened.tokens = opened.engine->tokenizer().encode(text, false, false);
  return opened;
}

}  // namespace kvick::cli
