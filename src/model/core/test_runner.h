#pragma once
// A small random model with one store, fed step by step, for the tests of model/.

#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <span>
#include <utility>

#include "kv/registry/registry.h"
#include "model/core/executor.h"
#include "model/core/test_model.h"

namespace kvick::model {

using tools::Arch;

inline std::vector<Token> tokens_of(uint32_t count, uint32_t seed, uint32_t vocab) {
  std::vector<Token> tokens;
  for (uint32_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    tokens.push_back(static_cast<Token>((seed >> 8) % vocab));
  }
  return tokens;
}

// A model with one store; sequences are fed step by step and give the logits of every token.
struct Runner {
  explicit Runner(Arch arch, std::string spec = "", unsigned threads = 2,
                  kernels::DType type = kernels::DType::kF32, std::optional<kv::Aging> aging = {},
                  const kernels::Table& table = kernels::table(base::best_isa()))
      : pool(threads),
        kernels(table),
        path(write_model(spec_of(arch, type, aging.has_value()), pool, arch == Arch::kOpt)),
        model(load_model(path, pool, kernels)),
        executor(std::in_place, *model, Workspace(pool, kernels)) {
    const bool memory = model->trained_slots() != nullptr;
    const auto rows = memory ? kernels::DType::kF32 : kernels::DType::kF16;
    if (spec.empty()) spec = memory ? "bounded" : "virtual";
    kv::Setup setup;
    setup.shape = model->kv_shape(rows, rows);
    setup.shape.aging = aging;
    setup.compute.store_row = kernels.store_row;
    setup.compute.store_group = kernels.store_group;
    setup.compute.pool = &pool;
    setup.compute.kernels = &kernels;
    setup.slots = model->trained_slots();
    if (kv::find_strategy(kv::parse_spec(spec)->name)->traits.tiered)
      setup.tier.spec = kv::parse_spec("ram:unit=16,fast=128KiB,size=16MiB").value();
    store = std::move(kv::make_store(*kv::parse_spec(spec), setup)).value();
  }

  // wide: heads of 32 values, which some types of rows need.
  static tools::Spec spec_of(Arch arch, kernels::DType type, bool wide) {
    tools::Spec spec = tiny_spec(arch, type);
    if (wide) spec.dim = 32 * spec.heads;
    return spec;
  }

  std::vector<float> step(std::span<const Slot> slots, const kv::Kept* kept = nullptr) {
    const Batch batch = {.slots = slots};
    std::vector<uint32_t> wanted(batch.tokens());
    for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    auto step = executor->run(*store, batch, wanted).value();
    step.commit(kept != nullptr ? *kept : step.all());
    return {executor->logits().begin(), executor->logits().end()};
  }

  // Continues with another model over the same store. Returns the previous model.
  std::unique_ptr<Model> exchange(std::unique_ptr<Model> other) {
    executor.emplace(*other, Workspace(pool, kernels));
    return std::exchange(model, std::move(other));
  }

  // Feeds the tokens in pieces of the given sizes (the last size repeats).
  std::vector<float> feed(kv::SeqId seq, std::span<const Token> tokens,
                          std::vector<uint32_t> pieces, Role role = Role::kAnswer) {
    std::vector<float> all;
    for (size_t i = 0; !tokens.empty(); ++i) {
      const size_t n = std::min<size_t>(pieces[std::min(i, pieces.size() - 1)], tokens.size());
      const Slot slot = {.seq = seq,
                         .past = store->length(seq),
                         .tokens = tokens.first(n),
                         .parents = {},
                         .role = role};
      const std::vector<float> logits = step({&slot, 1});
      all.insert(all.end(), logits.begin(), logits.end());
      tokens = tokens.subspan(n);
    }
    return all;
  }

  std::span<const float> row(const std::vector<float>& logits, size_t i) const {
    return std::span(logits).subspan(i * model->outputs(), model->outputs());
  }

  base::ThreadPool pool;
  const kernels::Table& kernels;
  std::string path;
  std::unique_ptr<Model> model;
  std::optional<Executor> executor;
  std::unique_ptr<kv::Store> store;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace kvick::model
