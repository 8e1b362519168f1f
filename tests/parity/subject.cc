#include "subject.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <unistd.h>

#include "base/memory.h"
#include "engine/answer/pool.h"

namespace kvick::parity {
namespace {

std::optional<std::string> existing(const char* variable, const std::string& below) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string path = value + below;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

// The folder of the models that are made, deleted when the program ends.
struct Folder {
  const std::string path = fmt::format("{}kvick_parity_{}", testing::TempDir(), getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

template <typename T>
T must(base::Result<T> result) {
  KVICK_CHECK(result.ok(), "{}", result.error().message);
  return std::move(result).value();
}

}  // namespace

std::optional<std::string> default_model() { return existing("KVICK_TEST_MODEL", ""); }

std::optional<std::string> data_file(const std::string& name) {
  return existing("KVICK_TEST_DATA", "/" + name);
}

std::string make_model(const std::vector<std::string>& arguments, const std::string& name) {
  static const Folder kFolder;
  const std::string path = kFolder.path + "/" + name;
  std::filesystem::remove_all(path);
  std::string command = KVICK_MAKE_MODEL;
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  command += " -o '" + path + "'";
  KVICK_CHECK(std::system(command.c_str()) == 0, "{}", command);
  return path;
}

std::optional<std::string> model_of(const Case& of) {
  std::optional<std::string> path;
  if (!of.arguments.empty()) {
    path = make_model(of.arguments, "model.gguf");
  } else if (of.name == "stories260K") {
    const auto checkpoint = data_file("stories260K/stories260K.bin");
    const auto tokenizer = data_file("stories260K/tok512.bin");
    if (checkpoint && tokenizer)
      path = make_model({"--from-llama2c", *checkpoint, "--tokenizer", *tokenizer}, "model.gguf");
  } else {
    path = default_model();
  }
  if (path) {
    const base::MappedFile file = must(base::MappedFile::open(*path));
    EXPECT_EQ(file.bytes().size(), of.bytes) << *path;
    EXPECT_EQ(crc32(file.bytes()), of.crc32)
        << *path << " is not the file that was recorded; if make_model was meant to change, run "
        << "tests/reference/record_logits.py again";
  }
  return path;
}

std::unique_ptr<engine::Engine> open_engine(const std::string& path, base::Isa isa) {
  return must(engine::Engine::open({.model_path = path, .threads = 2, .isa = isa, .progress = {}}));
}

std::vector<float> logits_of(engine::Engine& engine, const std::vector<Token>& ids,
                             kernels::DType cache) {
  engine::KvOptions kv;
  kv.k_type = kv.v_type = cache;
  const auto store = must(engine.make_store(kv));
  const model::Slot slot = {.seq = store->open({}).seq, .past = 0, .tokens = ids, .parents = {}};
  std::vector<uint32_t> wanted(ids.size());
  for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
  model::Executor executor = engine.make_executor();
  KVICK_CHECK(executor.run(*store, {.slots = {&slot, 1}}, wanted).ok(), "no room for {} tokens",
              ids.size());
  return {executor.logits().begin(), executor.logits().end()};
}

std::vector<float> pooled_of(engine::Engine& engine, const std::vector<Token>& ids) {
  const model::Config& config = engine.model().config();
  const model::Pooling kind = engine::pooling_of(config, {});
  engine::KvOptions kv;
  kv.k_type = kv.v_type = kernels::DType::kF32;
  const auto store = must(engine.make_store(kv));
  const model::Slot slot = {.seq = store->open({}).seq, .past = 0, .tokens = ids, .parents = {}};
  std::vector<uint32_t> every(ids.size());
  std::iota(every.begin(), every.end(), 0U);
  model::Executor executor = engine.make_executor();
  auto step = executor.begin(*store, {.slots = {&slot, 1}});
  KVICK_CHECK(step.ok(), "no room for {} tokens", ids.size());
  step->want_states(every);
  step->forward({});
  engine::Pool pool(engine::states_of(config, kind), static_cast<uint32_t>(ids.size()), config.dim);
  while (!pool.complete())
    pool.add(executor.states().subspan(size_t{pool.next()} * config.dim, config.dim));
  return engine.model().head_of(kind, pool.vector());
}

}  // namespace kvick::parity
