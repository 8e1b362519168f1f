#pragma once
// Small random models for the tests of model/ and engine/.

#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <system_error>
#include <unistd.h>

#include "make_model/gguf.h"
#include "make_model/hugging_face.h"

#include "kernels/table/table.h"
#include "model/core/model.h"

namespace kvick::model {

// Deletes at the end of the program the files that its tests left at paths of test_path.
class TestFiles {
 public:
  TestFiles() = default;
  TestFiles(const TestFiles&) = delete;
  TestFiles& operator=(const TestFiles&) = delete;
  ~TestFiles() {
    if (getpid() != pid_) return;  // a forked child, which ends before its parent
    const std::string begin = prefix();
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir(), none))
      if (entry.path().filename().string().starts_with(begin))
        std::filesystem::remove_all(entry.path(), none);
  }
  static std::string prefix() { return "kvick_" + std::to_string(getpid()) + "_"; }

 private:
  pid_t pid_ = getpid();
};

// Returns a path in the test folder that no other test program uses.
inline std::string test_path(const std::string& name) {
  static const TestFiles files;
  return testing::TempDir() + TestFiles::prefix() + name;
}

inline tools::Spec tiny_spec(tools::Arch arch, kernels::DType type = kernels::DType::kF32) {
  tools::Spec spec;
  spec.arch = arch;
  spec.type = type;
  spec.layers = 2;
  spec.dim = 64;
  spec.ffn = 96;
  spec.heads = 4;
  spec.kv_heads = arch == tools::Arch::kOpt ? 4 : 2;
  if (arch == tools::Arch::kBct) spec.head_dim = 32, spec.slots = 24;
  spec.vocab = 512;
  spec.context = 512;
  return spec;
}

// Writes a model of this kind and returns its path.
inline std::string write_model(const tools::Spec& spec, base::ThreadPool& pool, bool hugging_face) {
  const std::string path = test_path(fmt::format("{}_{}", tools::arch_name(spec.arch),
                                                 kernels::dtype_info(spec.type).name)) +
                           (hugging_face ? "" : ".gguf");
  const auto checked = tools::checked(spec);
  EXPECT_TRUE(checked.ok());
  if (hugging_face) std::filesystem::create_directories(path);
  const auto written = hugging_face ? tools::make_hugging_face(path, *checked, 1, pool)
                                    : tools::make_gguf(path, *checked, pool);
  EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
  return path;
}

inline std::unique_ptr<Model> load_model(const std::string& path, base::ThreadPool& pool,
                                         const kernels::Table& kernels,
                                         std::span<const Token> outputs = {}) {
  auto file = io::ModelFile::open(path);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  auto model = Model::load(std::move(file).value(),
                           {.kernels = &kernels, .pool = &pool, .outputs = outputs});
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return std::move(model).value();
}

}  // namespace kvick::model
