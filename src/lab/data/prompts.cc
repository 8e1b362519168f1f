#include "lab/data/prompts.h"

#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace kvick::lab {
namespace {

using base::fail;
using Json = nlohmann::ordered_json;

struct Prompt {
  std::string category;
  std::vector<engine::Token> tokens;
};

base::Result<Prompt> chat_prompt(std::string category, const Json& content,
                                 const engine::Engine& engine) {
  const auto messages = Json::array({{{"role", "user"}, {"content", content}}});
  KVICK_TRY(std::vector<engine::Token> tokens, engine.chat_tokens(messages));
  return Prompt{std::move(category), std::move(tokens)};
}

base::Result<Prompt> prompt_of(const Json& line, const engine::Engine& engine) {
  if (line.is_object() && line.contains("prompt") && line["prompt"].is_string())
    return Prompt{"code",
                  engine.tokenizer().encode(line["prompt"].get<std::string>(), true, false)};
  if (line.is_object() && line.contains("question") && line["question"].is_string())
    return chat_prompt("question", line["question"], engine);
  const bool bench = line.is_object() && line.contains("category") && line.contains("turns") &&
                     line["category"].is_string() && line["turns"].is_array() &&
                     !line["turns"].empty() && line["turns"][0].is_string();
  if (!bench)
    return fail(
        "neither a question of Spec-Bench (category, turns) or of GSM8K (question) nor one of "
        "HumanEval (prompt)");
  return chat_prompt(line["category"].get<std::string>(), line["turns"][0], engine);
}

}  // namespace

base::Result<PromptSet> read_prompts(const std::string& path, const engine::Engine& engine,
                                     uint32_t most, uint32_t room) {
  std::ifstream in(path);
  if (!in) return fail("cannot read {}", path);
  PromptSet set;
  std::string text;
  for (uint32_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const Json line = Json::parse(text, nullptr, false);
    auto prompt = prompt_of(line, engine);
    if (!prompt.ok()) return fail("{}, line {}: {}", path, number, prompt.error().message);
    auto& prompts = set.categories[prompt->category];
    const bool fits = prompt->tokens.size() + room <= engine.model().config().context;
    if (fits && prompts.size() < most) prompts.push_back(std::move(prompt->tokens));
  }
  std::erase_if(set.categories, [](const auto& one) { return one.second.empty(); });
  if (set.categories.empty()) return fail("{} has no prompt that fits the model's context", path);
  return set;
}

}  // namespace kvick::lab
