#include "engine/core/rank_stores.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "kv/strategy/budget.h"
#include "model/parallel/follower.h"
#include "model/parallel/ranked_store.h"

namespace kvick::engine {
namespace {

using base::Result;
using nlohmann::json;

// Returns the options as text. A budget is identified by its address on rank 0, so that stores that
// share a budget there share one on each rank.
std::string text_of(const KvOptions& options) {
  json all = {{"spec", kv::spec_text(options.spec)},
              {"type", kv_type_text(options, /*files=*/true)},
              {"select", kv_select_text(options)},
              {"tier", options.tier ? kv::spec_text(*options.tier) : ""},
              {"max_tokens", options.max_tokens},
              {"max_bytes", options.max_bytes},
              {"reuse", options.on_reuse != nullptr}};
  if (options.budget != nullptr)
    all["budget"] =
        json::array({reinterpret_cast<uintptr_t>(options.budget.get()), options.budget->bytes()});
  return all.dump();
}

// Another rank's budgets, by their addresses on rank 0.
using Budgets = std::map<uintptr_t, std::weak_ptr<kv::Budget>>;

std::shared_ptr<kv::Budget> budget_of(const json& words, Budgets& budgets) {
  std::weak_ptr<kv::Budget>& known = budgets[words[0].get<uintptr_t>()];
  std::shared_ptr<kv::Budget> budget = known.lock();
  const auto bytes = words[1].get<uint64_t>();
  if (budget != nullptr && budget->bytes() == bytes) return budget;
  budget = std::make_shared<kv::Budget>(bytes);
  known = budget;
  return budget;
}

Result<KvOptions> options_of(const std::string& text, Budgets& budgets) {
  const json all = json::parse(text);
  const auto word = [&](const char* name) { return all[name].get<std::string>(); };
  KVICK_TRY(KvOptions options,
            parse_kv_options(word("spec"), word("type"), word("tier"), word("select")));
  options.max_tokens = all["max_tokens"].get<uint32_t>();
  options.max_bytes = all["max_bytes"].get<uint64_t>();
  if (all["reuse"].get<bool>()) options.on_reuse = [](double) {};
  if (all.contains("budget")) options.budget = budget_of(all["budget"], budgets);
  return options;
}

// Returns what ranks add to the arithmetic of one process. Tensor ranks add partial results in
// their order, so their rows differ from those of one process. Ranks of a pipeline compute the same
// rows, and keep them in the same layout if all layers are of one group. others: the arithmetic of
// the other ranks, in their order.
std::string arithmetic_of_ranks(const Engine& engine, const std::vector<std::string>& others) {
  const model::Ranks& ranks = *engine.ranks();
  const model::Config& config = engine.model().whole_config();
  std::string text;
  if (engine.model().split() == model::RankSplit::kTensor)
    text = fmt::format("+{} ranks{}{}", ranks.size(), ranks.rounding().empty() ? "" : " ",
                       ranks.rounding());
  else if (!config.layers_alike() || !config.windows_alike())
    text = fmt::format("+{} stages", ranks.size());
  const auto differs = [own = engine.arithmetic()](const auto& one) { return one != own; };
  if (std::any_of(others.begin(), others.end(), differs))
    text += fmt::format("+{}", fmt::join(others, ","));
  return text;
}

}  // namespace

base::Status<> agree_on_opening(model::Ranks& ranks, base::Result<std::unique_ptr<Engine>>& own) {
  base::Status<> all = base::Done{};
  if (!own.ok()) all = own.error();
  if (!ranks.leads()) {
    model::MessageWriter answer;
    answer.add(own.ok());
    answer.add_text(own.ok() ? (*own)->arithmetic() : own.error().message);
    ranks.answer(answer.bytes());
    return all;
  }
  std::vector<std::string> arithmetics;
  for (const std::vector<std::byte>& answer : ranks.answers(/*patient=*/true)) {
    model::MessageReader reader(answer);
    const bool opened = reader.take<bool>();
    arithmetics.push_back(reader.take_text());
    if (!opened && all.ok())
      all = base::fail("rank {}: {}", arithmetics.size(), arithmetics.back());
  }
  if (all.ok() && (*own)->ranks() != nullptr)
    (*own)->set_ranks_arithmetic(arithmetic_of_ranks(**own, arithmetics));
  return all;
}

Result<std::unique_ptr<kv::Store>> spread_store(model::Ranks& ranks, const KvOptions& resolved,
                                                std::unique_ptr<kv::Store> own) {
  const uint32_t number = ranks.next_store();
  model::MessageWriter message(model::Order::kMakeStore);
  message.add(number);
  message.add_text(text_of(resolved));
  ranks.tell(message.bytes());
  std::string wrong;
  std::vector<model::RankRows> others;
  for (const std::vector<std::byte>& answer : ranks.answers(/*patient=*/true)) {
    model::MessageReader reader(answer);
    const std::string one = reader.take_text();
    others.push_back(one.empty() ? model::take_rank_rows(reader) : model::RankRows());
    if (!one.empty() && wrong.empty()) wrong = fmt::format("rank {}: {}", others.size(), one);
  }
  // Its destructor destroys the stores of all ranks, also after the error below.
  auto store = std::make_unique<model::RankedStore>(ranks, number, std::move(own), others);
  if (!wrong.empty()) return base::Error{wrong};
  return std::unique_ptr<kv::Store>(std::move(store));
}

void follow(const Engine& engine, std::function<void(const std::string&)> report) {
  Budgets budgets;
  const auto make_store = [&](const std::string& text) -> Result<std::unique_ptr<kv::Store>> {
    KVICK_TRY(const KvOptions options, options_of(text, budgets));
    return engine.make_store(options);
  };
  model::Follower follower(engine.model(), engine.make_workspace(), make_store, std::move(report));
  follower.run();
}

}  // namespace kvick::engine
