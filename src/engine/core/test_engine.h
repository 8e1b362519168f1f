#pragma once

#include "engine/core/engine.h"
#include "model/core/test_model.h"

namespace kvick::engine {

// An engine over a small random model.
inline std::unique_ptr<Engine> engine_of(const tools::Spec& spec,
                                         Attention attention = Attention::kFused,
                                         PromptArithmetic prompts = PromptArithmetic::kExact,
                                         std::span<const model::Family> families = {}) {
  base::ThreadPool pool(1);
  const std::string path = model::write_model(spec, pool, false);
  auto engine = Engine::open({.model_path = path,
                              .threads = 2,
                              .isa = base::best_isa(),
                              .attention = attention,
                              .prompt_arithmetic = prompts,
                              .fingerprint = true,
                              .progress = {},
                              .families = families});
  // The engine keeps the file mapped, so the next model must not overwrite it.
  std::filesystem::remove(path);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(engine).value();
}

// Options for a strategy. A tiered one gets so little fast memory that rows leave it.
inline KvOptions kv_of(const kv::Strategy& strategy, std::string_view type = "") {
  constexpr std::string_view kTier = "ram:size=16MiB,fast=64KiB,unit=8";
  return parse_kv_options(strategy.name, type, strategy.traits.tiered ? kTier : "").value();
}

// An engine of a small llama model whose heads are wide enough for rows of every type.
inline std::unique_ptr<Engine> wide_engine() {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.context = 128;
  return engine_of(spec);
}

// An engine of a small llama model.
inline std::unique_ptr<Engine> tiny_engine(uint32_t context = 128,
                                           kernels::DType type = kernels::DType::kF32,
                                           uint32_t vocab = 512) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama, type);
  spec.context = context;
  spec.vocab = vocab;
  return engine_of(spec);
}

// The same with a given arithmetic of prompts, in Q8_0.
inline std::unique_ptr<Engine> tiny_engine(uint32_t context, PromptArithmetic prompts) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama, kernels::DType::kQ8_0);
  spec.context = context;
  return engine_of(spec, Attention::kFused, prompts);
}

}  // namespace kvick::engine
