#include "folder_logits.h"

#include <algorithm>
#include <span>

#include "recorded_folder.h"

#include "kv/registry/registry.h"
#include "model/core/executor.h"

namespace kvick::parity {

std::vector<float> logits_of(const model::Model& model, base::ThreadPool& pool,
                             const kernels::Table& kernels, Steps steps) {
  kv::Setup setup = {.shape = {.max_tokens = steps.tokens,
                               .k_type = kernels::DType::kF32,
                               .v_type = kernels::DType::kF32}};
  model::set_layers(model.config(), setup);
  const auto store = std::move(kv::make_store(*kv::parse_spec("virtual"), setup)).value();
  const kv::SeqId seq = store->open({}).seq;
  model::Executor executor(model, {pool, kernels});
  const std::vector<Token> tokens = recorded_tokens(steps.tokens);
  std::vector<float> logits;
  for (uint32_t past = 0; past < steps.tokens; past += steps.piece) {
    const auto part = std::span(tokens).subspan(past, std::min(steps.piece, steps.tokens - past));
    const model::Slot slot = {.seq = seq, .past = past, .tokens = part, .parents = {}};
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < part.size(); ++i) wanted.push_back(i);
    auto step = std::move(executor.run(*store, {.slots = {&slot, 1}}, wanted)).value();
    logits.insert(logits.end(), executor.logits().begin(), executor.logits().end());
    step.commit(step.all());
  }
  return logits;
}

}  // namespace kvick::parity
