#pragma once
// A model that several threads run as ranks, each with its share and its own store.

#include <functional>
#include <thread>

#include "kv/registry/registry.h"
#include "model/core/executor.h"
#include "model/core/test_model.h"
#include "model/core/test_runner.h"
#include "model/parallel/follower.h"
#include "model/parallel/ranked_store.h"
#include "model/ranks/test_shared.h"

namespace kvick::model {

// Writes a model of four layers, with heads and widths that three ranks can divide.
inline std::string model_path(Arch arch, kernels::DType type) {
  base::ThreadPool pool(1);
  tools::Spec spec = tiny_spec(arch, type);
  spec.layers = 4;
  spec.heads = 8;
  spec.kv_heads = arch == Arch::kOpt ? 8 : 4;
  spec.dim = type == kernels::DType::kQ4_K ? 512 : 256;  // whole blocks on each rank
  spec.ffn = 512;
  return write_model(spec, pool, arch == Arch::kOpt);
}

// Returns the largest error, relative to the largest logit: ranks add up in another order.
inline float error_of(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i]));
    error = std::max(error, std::abs(a[i] - b[i]));
  }
  return error / most;
}

inline kv::Setup setup_of(const Model& model, kernels::DType type, base::ThreadPool& pool,
                          const kernels::Table& kernels, const std::string& spec) {
  kv::Setup setup = {.shape = {.k_type = type, .v_type = type}};
  set_layers(model.config(), setup);
  setup.compute = {.store_row = kernels.store_row,
                   .store_group = kernels.store_group,
                   .kernels = &kernels,
                   .pool = &pool};
  setup.select.group = model.config().layers.front().group();
  if (kv::find_strategy(kv::parse_spec(spec)->name)->traits.tiered)
    setup.tier.spec = kv::parse_spec("ram:unit=16,fast=512KiB,size=16MiB").value();
  return setup;
}

// A single process that gets the same calls.
struct Alone {
  Alone(const std::string& path, const std::string& spec)
      : model(load_model(path, pool, kernels)),
        executor(std::in_place, *model, Workspace(pool, kernels)),
        store(std::move(kv::make_store(*kv::parse_spec(spec),
                                       setup_of(*model, kernels::DType::kF16, pool, kernels, spec)))
                  .value()) {}
  const kernels::Table& kernels = kernels::table(base::best_isa());
  base::ThreadPool pool{1};
  std::unique_ptr<Model> model;
  std::optional<Executor> executor;
  std::unique_ptr<kv::Store> store;
};

class Team {
 public:
  // Returns the store that rank r uses, given the store made for it.
  using Change = std::function<std::unique_ptr<kv::Store>(unsigned r, std::unique_ptr<kv::Store>)>;
  Team(const std::string& path, unsigned ranks, const std::string& spec, kernels::DType type,
       Change change = {}, std::function<void(unsigned r, kv::Setup&)> limit = {},
       RankSplit split = RankSplit::kTensor)
      : ranks_(ranks),
        change_(std::move(change)),
        limit_(std::move(limit)),
        type_(type),
        split_(split) {
    for (unsigned r = 1; r < ranks; ++r)
      threads_.emplace_back([this, r, path] { follow(r, path); });
    model_ = load(path, 0, pool_);
    executor.emplace(*model_, Workspace(pool_, kernels_));
    MessageWriter message(Order::kMakeStore);
    message.add(uint32_t{5});
    message.add_text(spec);
    ranks_[0].tell(message.bytes());
    auto own = make_store(*model_, 0, pool_, spec);
    std::vector<RankRows> others;
    for (const auto& answer : ranks_[0].answers()) {
      MessageReader reader(answer);
      EXPECT_EQ(reader.take_text(), "");
      others.push_back(take_rank_rows(reader));
    }
    store = std::make_unique<RankedStore>(ranks_[0], 5, std::move(own), others);
  }
  ~Team() {
    store.reset();
    ranks_[0].tell(MessageWriter(Order::kEnd).bytes());
    for (std::thread& thread : threads_) thread.join();
  }

  const Model& model() const { return *model_; }

 private:
  std::unique_ptr<Model> load(const std::string& path, unsigned r, base::ThreadPool& pool) {
    auto file = io::ModelFile::open(path);
    EXPECT_TRUE(file.ok());
    auto model =
        Model::load(std::move(file).value(),
                    {.kernels = &kernels_, .pool = &pool, .ranks = &ranks_[r], .split = split_});
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
    return std::move(model).value();
  }
  std::unique_ptr<kv::Store> make_store(const Model& model, unsigned r, base::ThreadPool& pool,
                                        const std::string& spec) {
    kv::Setup setup = setup_of(model, type_, pool, kernels_, spec);
    if (limit_) limit_(r, setup);
    auto made = std::move(kv::make_store(*kv::parse_spec(spec), setup)).value();
    return change_ ? change_(r, std::move(made)) : std::move(made);
  }
  void follow(unsigned r, const std::string& path) {
    base::ThreadPool pool(1);
    const std::unique_ptr<Model> model = load(path, r, pool);
    const auto make = [&](const std::string& spec) {
      return base::Result<std::unique_ptr<kv::Store>>(make_store(*model, r, pool, spec));
    };
    Follower follower(*model, Workspace(pool, kernels_), make,
                      [this](const std::string& why) { reports.push_back(why); });
    follower.run();
  }

  const kernels::Table& kernels_ = kernels::table(base::best_isa());
  ThreadRanks ranks_;
  Change change_;
  std::function<void(unsigned r, kv::Setup&)> limit_;
  kernels::DType type_;
  RankSplit split_;
  base::ThreadPool pool_{1};
  std::unique_ptr<Model> model_;
  std::vector<std::thread> threads_;

 public:
  std::optional<Executor> executor;
  std::unique_ptr<kv::Store> store;
  std::vector<std::string> reports;  // of the other ranks; a test fails one at a time
};

}  // namespace kvick::model
