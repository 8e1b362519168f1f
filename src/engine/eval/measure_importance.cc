#include "engine/eval/measure_importance.h"

#include <algorithm>
#include <cmath>

#include "model/core/weights.h"

namespace kvick::engine {
namespace {

using base::fail;

constexpr uint32_t kOutputStep = 8;

class Sums final : public model::InputObserver {
 public:
  void see(const model::Linear& linear, const float* x, uint32_t tokens) override {
    if (linear.tensor.empty()) return;  // it reads no tensor's rows in their stored order
    const size_t inputs = linear.w.inputs;
    Matrices& matrices = tensors_[linear.tensor];
    if (linear.expert >= matrices.tokens.size()) {
      matrices.tokens.resize(linear.expert + 1);
      matrices.squares.resize((linear.expert + 1) * inputs);
    }
    matrices.tokens[linear.expert] += tokens;
    double* const sums = matrices.squares.data() + linear.expert * inputs;
    for (uint32_t t = 0; t < tokens; ++t)
      for (size_t i = 0; i < inputs; ++i) sums[i] += double{x[t * inputs + i]} * x[t * inputs + i];
  }

  base::Result<quantize::Importance> result() const {
    quantize::Importance importance;
    for (const auto& [name, matrices] : tensors_) {
      quantize::Importance::Sums& sums = importance.tensors[name];
      sums.tokens.assign(matrices.tokens.begin(), matrices.tokens.end());
      for (const double square : matrices.squares) {
        if (!std::isfinite(static_cast<float>(square)))
          return fail("what {} reads is not finite: the weights are damaged", name);
        sums.squares.push_back(static_cast<float>(square));
      }
    }
    return importance;
  }

 private:
  struct Matrices {
    std::vector<double> squares;  // [matrices][inputs]
    std::vector<uint64_t> tokens;
  };
  std::map<std::string, Matrices> tensors_;
};

}  // namespace

base::Result<quantize::Importance> measure_importance(Engine& engine, std::span<const Token> text,
                                                      const ImportanceOptions& options) {
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  if (text.empty()) return fail("the text has no tokens: there is nothing to measure");
  if (options.window == 0) return fail("a window of 0 tokens: at least 1 is needed");
  KvOptions kv;
  kv.max_tokens = std::min(options.window, engine.model().config().context);
  KVICK_TRY(const std::unique_ptr<kv::Store> store, engine.make_store(kv));
  Sums sums;
  model::Workspace workspace(engine.pool(), engine.kernels());
  workspace.observer = &sums;
  model::Executor executor(engine.model(), std::move(workspace));
  uint32_t windows = 0;
  for (size_t begin = 0; begin < text.size(); begin += kv.max_tokens, ++windows) {
    const size_t n = std::min<size_t>(kv.max_tokens, text.size() - begin);
    const model::Slot slot = {
        .seq = store->open({}).seq, .past = 0, .tokens = text.subspan(begin, n), .parents = {}};
    std::vector<uint32_t> wanted;
    for (uint32_t t = 0; t < n; t += kOutputStep) wanted.push_back(t);
    const auto step = executor.advance(*store, {.slots = {&slot, 1}}, wanted);
    if (!step.ok()) return fail("no room for {} tokens: {}", n, step.error().what);
    store->close(slot.seq);
    if (options.progress) options.progress(begin + n, text.size());
  }
  KVICK_TRY(quantize::Importance importance, sums.result());
  importance.text = options.text;
  importance.chunks = windows;
  importance.chunk_tokens = kv.max_tokens;
  return importance;
}

}  // namespace kvick::engine
