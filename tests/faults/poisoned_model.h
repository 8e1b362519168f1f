#pragma once
// A small random model in which one token's values are not numbers: a prompt with this token gets
// logits that are not numbers.

#include <cstring>
#include <fstream>
#include <limits>

#include "base/memory.h"
#include "engine/core/test_engine.h"

namespace kvick::faults {

inline constexpr engine::Token kPoisoned = 7;

inline std::string poisoned_model(uint32_t context = 256) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.context = context;
  base::ThreadPool pool(1);
  std::string path = model::write_model(spec, pool, false);
  const auto file = io::ModelFile::open(path);
  EXPECT_TRUE(file.ok());
  const io::Tensor* const table = file->find("token_embd.weight");
  const size_t row_bytes = table->data.size() / table->shape[0];
  const std::string row(reinterpret_cast<const char*>(table->data.data()) + kPoisoned * row_bytes,
                        row_bytes);
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(bytes), {});
  const std::vector<float> nan(row_bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  bytes.clear();
  bytes.seekp(static_cast<std::streamoff>(all.find(row)));
  bytes.write(reinterpret_cast<const char*>(nan.data()), static_cast<std::streamsize>(row_bytes));
  return path;
}

inline std::unique_ptr<engine::Engine> poisoned_engine(uint32_t context = 256) {
  const std::string path = poisoned_model(context);
  auto engine = engine::Engine::open({.model_path = path, .threads = 2, .fingerprint = true});
  std::filesystem::remove(path);  // the engine has mapped the file
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(engine).value();
}

}  // namespace kvick::faults
