#pragma once
// Small training runs for tests, and the engine's logits of their models.

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "engine/session/session.h"
#include "train/from_model/tokenise.h"
#include "train/trainer/run.h"

namespace kvick::train::test {

inline std::string test_path(const std::string& name) {
  return testing::TempDir() + "kvick_trainer_" + std::to_string(getpid()) + "_" + name;
}

inline TokenData small_text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += text_of("line ", i * i, " of many, and then\n");
  const auto tokenizer = std::move(text::Tokenizer::make(byte_vocabulary())).value();
  return tokenise(*tokenizer, std::span(&text, 1), 0.1);
}

inline Settings small_settings(const std::string& arch) {
  Settings settings;
  settings.model = {.arch = arch,
                    .dim = 64,
                    .layers = 2,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_dim = 32,
                    .vocab = 257,
                    .ctx = 70,
                    .slots = 24};
  settings.run = {.batch = 3, .steps = 20, .warmup = 4, .lr = 3e-3};
  complete(settings);
  return settings;
}

inline Checkpoint run_to(const Settings& settings, const TokenData& data, const RunOptions& options,
                         uint64_t stop_at) {
  uint64_t asked = 0;
  const RunCalls calls = {.seconds = [] { return 0.0; },
                          .report = [](const Standing&) {},
                          .stopped = [&] { return asked++ == stop_at; }};
  return run_training(settings, {.text = &data}, torch::kCPU, options, calls);
}

// Returns the logits of all tokens, computed in steps of different lengths.
inline std::vector<float> engine_logits(const std::string& path,
                                        const std::vector<kv::Token>& tokens) {
  auto engine = std::move(engine::Engine::open({.model_path = path, .threads = 2})).value();
  const auto options = engine::parse_kv_options("", "f32").value();
  const auto store = std::move(engine->make_store(options)).value();
  model::Executor executor = engine->make_executor();
  const kv::SeqId seq = store->open({}).seq;
  std::vector<float> logits;
  uint32_t past = 0;
  while (past < tokens.size()) {
    const uint32_t n = std::min<uint32_t>(past == 0 ? 1 : 23, tokens.size() - past);
    std::vector<uint32_t> wanted(n);
    for (uint32_t i = 0; i < n; ++i) wanted[i] = i;
    const model::Slot slot = {
        .seq = seq, .past = past, .tokens = std::span(tokens).subspan(past, n), .parents = {}};
    EXPECT_TRUE(executor.advance(*store, {.slots = {&slot, 1}}, wanted).ok());
    logits.insert(logits.end(), executor.logits().begin(), executor.logits().end());
    past += n;
  }
  return logits;
}

}  // namespace kvick::train::test
