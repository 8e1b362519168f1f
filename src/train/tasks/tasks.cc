#include "train/tasks/tasks.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "train/tasks/answer_task.h"
#include "train/tasks/mixed.h"

namespace kvick::train {
namespace {

constexpr uint64_t kHeldOutSeed = 0x9e3779b97f4a7c15;
constexpr uint64_t kHeldOutBatches = 4;  // batches of held-out made-up sequences

class Text final : public Task {
 public:
  Text(const TokenData& data, uint64_t ctx, uint64_t rows, uint64_t seed)
      : data_(data), ctx_(ctx), rows_(rows), seed_(seed) {}

  uint64_t vocab() const override { return data_.vocab; }

  Batch training(uint64_t step) const override {
    Batch batch{.rows = rows_, .tokens = ctx_};
    for (uint64_t row = 0; row < rows_; ++row)
      add(data_.train, mixed(mixed(seed_, step), row) % (data_.train.size() - ctx_), batch);
    return batch;
  }

  Batch held_out(uint64_t number) const override {
    Batch batch{.rows = 0, .tokens = ctx_};
    for (uint64_t row = number * rows_; row < (number + 1) * rows_; ++row) {
      if ((row + 1) * ctx_ >= data_.held_out.size()) break;
      add(data_.held_out, row * ctx_, batch);
      ++batch.rows;
    }
    return batch;
  }

 private:
  void add(const std::vector<int32_t>& tokens, uint64_t first, Batch& batch) const {
    const auto from = tokens.begin() + static_cast<ptrdiff_t>(first);
    const auto count = static_cast<ptrdiff_t>(ctx_);
    batch.inputs.insert(batch.inputs.end(), from, from + count);
    batch.targets.insert(batch.targets.end(), from + 1, from + 1 + count);
  }

  const TokenData& data_;
  uint64_t ctx_, rows_, seed_;
};

// Base class of the tasks with made-up sequences.
class MadeUp : public Task {
 public:
  explicit MadeUp(const RunSettings& run) : run_(run) {}
  uint64_t vocab() const override { return run_.symbols; }
  bool asks() const override { return true; }

  Batch training(uint64_t step) const override { return batch(mixed(run_.seed, step)); }
  Batch held_out(uint64_t number) const override {
    return number < kHeldOutBatches ? batch(mixed(kHeldOutSeed, number)) : Batch{};
  }

 protected:
  using Random = std::mt19937_64;
  // One sequence. Where asked[i] is true, tokens[i + 1] is a target after tokens[i].
  struct Row {
    std::vector<uint64_t> tokens;
    std::vector<bool> asked;
    void push(uint64_t token, bool asks) {
      tokens.push_back(token);
      asked.push_back(asks);
    }
  };
  virtual Row row(Random& random) const = 0;
  const RunSettings run_;

 private:
  Batch batch(uint64_t seed) const {
    Random random(seed);
    Batch batch{.rows = run_.batch};
    for (uint64_t i = 0; i < run_.batch; ++i) {
      const Row made = row(random);
      batch.tokens = made.tokens.size() - 1;
      for (size_t t = 0; t < batch.tokens; ++t) {
        batch.inputs.push_back(static_cast<int64_t>(made.tokens[t]));
        batch.targets.push_back(made.asked[t] ? static_cast<int64_t>(made.tokens[t + 1])
                                              : kNotAsked);
      }
    }
    return batch;
  }
};

// Multi-query associative recall (Arora et al. 2023): keys with their values, then each key again
// in another order, where its value is the target. Keys are the lower half of the symbols.
class Recall final : public MadeUp {
 public:
  using MadeUp::MadeUp;

 private:
  Row row(Random& random) const override {
    const uint64_t half = run_.symbols / 2;
    std::vector<uint64_t> keys(half), values(run_.pairs), order(run_.pairs);
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), random);
    for (uint64_t& value : values) value = half + random() % (run_.symbols - half);
    std::iota(order.begin(), order.end(), 0);
    Row out;
    for (const uint64_t i : order) out.push(keys[i], false), out.push(values[i], false);
    std::shuffle(order.begin(), order.end(), random);
    for (const uint64_t i : order) out.push(keys[i], true), out.push(values[i], false);
    return out;
  }
};

// Symbols, a mark (symbol 0), and the same symbols again as targets.
class Copying final : public MadeUp {
 public:
  using MadeUp::MadeUp;

 private:
  Row row(Random& random) const override {
    std::vector<uint64_t> symbols(run_.pairs);
    for (uint64_t& symbol : symbols) symbol = 1 + random() % (run_.symbols - 1);
    Row out;
    for (const uint64_t symbol : symbols) out.push(symbol, false);
    out.push(0, true);
    for (const uint64_t symbol : symbols) out.push(symbol, true);
    return out;
  }
};

}  // namespace

uint64_t Data::tokens() const {
  return text != nullptr ? text->train.size() : answers != nullptr ? answers->tokens.size() : 0;
}

uint64_t Data::vocab() const {
  return text != nullptr ? text->vocab : answers != nullptr ? answers->vocab : 0;
}

const Vocabulary* Data::vocabulary() const {
  return text != nullptr ? &text->vocabulary : answers != nullptr ? &answers->vocabulary : nullptr;
}

Task::~Task() = default;

std::unique_ptr<Task> make_task(const Settings& settings, const Data& data) {
  const RunSettings& run = settings.run;
  if (run.task == "mqar") {
    if (run.pairs > run.symbols / 2)
      refuse("--pairs ", run.pairs, " need --symbols of at least ", 2 * run.pairs,
             ": keys are half of them");
    return std::make_unique<Recall>(run);
  }
  if (run.task == "copy") return std::make_unique<Copying>(run);
  if (run.task == "answers") {
    if (data.answers == nullptr) refuse("draft needs --data FILE, which kvick train answers makes");
    return answers_of(*data.answers, settings);
  }
  const TokenData* text = data.text;
  if (text == nullptr) refuse("--task text needs --data FILE, which kvick train tokens makes");
  if (text->train.size() <= settings.model.ctx)
    refuse("the text has ", text->train.size(), " tokens for training, and --ctx ",
           settings.model.ctx, " asks for more");
  return std::make_unique<Text>(*text, settings.model.ctx, run.batch, run.seed);
}

std::unique_ptr<Task> windows_of(const TokenData& data, uint64_t ctx, uint64_t rows) {
  return std::make_unique<Text>(data, ctx, rows, 0);
}

}  // namespace kvick::train
