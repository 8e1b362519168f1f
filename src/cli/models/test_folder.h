#pragma once

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>

namespace kvick::cli {

// A temporary folder for one test, deleted at the end.
struct TestFolder {
  TestFolder() {
    std::string name = std::filesystem::temp_directory_path() / "kvick_cli_XXXXXX";
    path = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  // Writes a file and creates its folders.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
    return path / name;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::filesystem::path path;
};

}  // namespace kvick::cli
