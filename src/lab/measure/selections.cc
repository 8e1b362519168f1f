#include "lab/measure/selections.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>

#include "base/text_file.h"
#include "kv/registry/policies.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

// The file that the user gave for such a policy, and the option that gives it. kvzip's file is of
// one document, so only the policy itself names it.
struct GivenFile {
  std::string_view option;
  const std::string& path;
};
GivenFile file_for(const Bench& bench, std::string_view policy) {
  if (policy == "loki") return {"--components", bench.select.components};
  if (policy == "kvzap") return {"--scores", bench.select.scores};
  if (policy == "duo") return {"--heads", bench.select.heads};
  static const std::string kNone;
  if (policy == "kvzip") return {"--kv-select kvzip:file=", kNone};
  return {"--predictor", bench.select.predictor};
}

base::Result<kv::Spec> read_policy(const Bench& bench, const std::string& text) {
  KVICK_TRY(const engine::KvOptions parsed, engine::parse_kv_options("", "", "", text));
  kv::Spec spec = parsed.select;
  const kv::Policy* const policy = kv::find_policy(spec.name);
  if (policy == nullptr)
    return base::fail("{} reads all rows, which is measured beside the policies anyway: name one",
                      text);
  if (spec.options.contains("budget"))
    return base::fail("{}: leave budget= out of --kv-select and give --budget", text);
  if (!kv::needs_file(*policy) || spec.options.contains("file")) return spec;
  const GivenFile file = file_for(bench, spec.name);
  if (file.path.empty())
    return base::fail("{} needs a file: {}{}FILE.kvp", spec.name, file.option,
                      file.option.ends_with('=') ? "" : " ");
  spec.options["file"] = file.path;
  return spec;
}

std::vector<std::string> default_policies(const Bench& bench, std::span<const char* const> asked) {
  std::vector<std::string> names;
  for (const kv::Policy& policy : kv::policies()) {
    if (!asked.empty() && std::find(asked.begin(), asked.end(), policy.name) == asked.end())
      continue;
    if (!kv::needs_file(policy) || !file_for(bench, policy.name).path.empty())
      names.emplace_back(policy.name);
  }
  return names;
}

std::string name_of(const kv::Spec& spec) {
  std::vector<std::string> options;
  for (const auto& [name, value] : spec.options)
    options.push_back(name + "=" + (name == "file" ? stem_of(value) : value));
  return options.empty() ? spec.name : fmt::format("{} {}", spec.name, fmt::join(options, " "));
}

bool is_share(const std::string& budget) { return budget.find('.') != std::string::npos; }

}  // namespace

std::string Selected::label() const {
  if (spec.name.empty()) return policy;
  if (!is_share(budget)) return fmt::format("{}, {} rows", policy, budget);
  return fmt::format("{} {:g} %", policy, percent_of(budget, 1));
}

Selected full_attention() { return {.policy = std::string(kFull), .budget = "1.0", .spec = {}}; }

base::Result<std::vector<Selected>> selections(const Bench& bench,
                                               std::span<const char* const> policies,
                                               std::span<const char* const> budgets) {
  const std::vector<std::string> names =
      bench.select.policies.empty() ? default_policies(bench, policies) : bench.select.policies;
  std::vector<std::string> shares = bench.select.budgets;
  if (shares.empty()) shares.assign(budgets.begin(), budgets.end());
  std::vector<Selected> all;
  for (const std::string& name : names) {
    KVICK_TRY(const kv::Spec spec, read_policy(bench, name));
    for (const std::string& budget : shares) {
      Selected one = {.policy = name_of(spec), .budget = budget, .spec = spec};
      // Their cells would have the same key, so that one would get the other's results.
      if (std::any_of(all.begin(), all.end(),
                      [&](const Selected& other) { return other.label() == one.label(); }))
        return base::fail(
            "two policies are called {}: give each policy and budget once, and files with "
            "different names",
            one.label());
      one.spec.options["budget"] = budget;
      all.push_back(std::move(one));
    }
  }
  return all;
}

engine::KvOptions options_of(const Selected& selected, uint32_t max_tokens) {
  engine::KvOptions options;
  options.k_type = options.v_type = kernels::DType::kF16;
  options.select = selected.spec;
  options.max_tokens = max_tokens;
  return options;
}

base::Status<> check(const engine::Engine& engine, const Selected& selected) {
  KVICK_TRY_VOID(engine.make_store(options_of(selected, 0)));
  return base::Done{};
}

double percent_of(const std::string& budget, uint32_t rows) {
  const double number = std::strtod(budget.c_str(), nullptr);
  return 100 * (is_share(budget) ? number : number / rows);
}

base::Result<std::vector<engine::Token>> text_of(const Bench& bench, std::string_view experiment) {
  if (bench.file.empty()) return base::fail("{} needs a text: --file TEXT", experiment);
  KVICK_TRY(const std::string text, base::read_text(bench.file));
  KVICK_TRY(engine::Engine * engine, model_of(bench, experiment));
  return engine->tokenizer().encode(text, false, false);
}

base::Result<uint32_t> context_of(const Bench& bench, const engine::Engine& engine,
                                  uint32_t longest) {
  const uint32_t context = engine.model().config().context;
  if (bench.tokens > context)
    return base::fail("a context of {} tokens was asked for, but the model has {}", bench.tokens,
                      context);
  return bench.tokens != 0 ? bench.tokens : std::min(longest, context);
}

base::Result<engine::Engine*> model_of(const Bench& bench, std::string_view experiment) {
  KVICK_TRY_VOID(require_model(bench, experiment));
  return bench.model(engine::Attention::kFused);
}

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

}  // namespace kvick::lab
