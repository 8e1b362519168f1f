#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "model/core/test_model.h"

namespace kvick::engine::test {

// A small llama model in a file, for tests that draft with it: draft:model=PATH. Delete it before
// another model of the same type is written, which would have the same path.
class DraftModelFile {
 public:
  explicit DraftModelFile(const tools::Spec& spec) {
    base::ThreadPool pool(1);
    path_ = model::write_model(spec, pool, false);
  }
  explicit DraftModelFile(uint32_t context = 512) : DraftModelFile(of_context(context)) {}
  ~DraftModelFile() {
    std::error_code none;
    std::filesystem::remove(path_, none);
  }
  DraftModelFile(const DraftModelFile&) = delete;
  DraftModelFile& operator=(const DraftModelFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  static tools::Spec of_context(uint32_t context) {
    tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
    spec.context = context;
    return spec;
  }

  std::string path_;
};

}  // namespace kvick::engine::test
