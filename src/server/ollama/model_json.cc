#include "server/ollama/model_json.h"

#include <fmt/format.h>

#include "server/ollama/ollama_format.h"
#include "text/tokenizer/fill_in.h"

namespace kvick::server {
namespace {

constexpr std::string_view kLatest = ":latest";
// No model expires by time. Ollama's own "never" is a date like this too.
constexpr const char* kNever = "2318-01-01T00:00:00Z";
// As long as other digests: `ollama list` fails on one with fewer than 12 characters.
constexpr const char* kNoDigest = "0000000000000000";

std::string_view without_latest(std::string_view name) {
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

// Returns the number of parameters as text: "134.5M".
std::string parameters_text(uint64_t parameters) {
  const auto count = static_cast<double>(parameters);
  if (parameters >= 1'000'000'000) return fmt::format("{:.1f}B", count / 1e9);
  if (parameters >= 1'000'000) return fmt::format("{:.1f}M", count / 1e6);
  return fmt::format("{:.1f}K", count / 1e3);
}

Json details_json(const OllamaModel& model) {
  const engine::Engine& engine = model.engine;
  const engine::FileSummary& file = engine.file_summary();
  const std::string& arch = engine.model().config().arch;
  return {{"parent_model", model.parent.empty() ? "" : tagged_name(model.parent)},
          {"format", file.container == io::Container::kGguf ? "gguf" : "safetensors"},
          {"family", arch},
          {"families", Json::array({arch})},
          {"parameter_size", parameters_text(file.parameters)},
          {"quantization_level", kernels::dtype_info(file.weights).name}};
}

Json listed_json(const OllamaModel& model, uint64_t size) {
  const std::string name = tagged_name(model.name);
  return {{"name", name},
          {"model", name},
          {"size", size},
          {"digest", model.engine.identity().weights},
          {"details", details_json(model)}};
}

// Returns model_info, whose keys are GGUF's.
Json info_json(const OllamaModel& served) {
  const engine::Engine& engine = served.engine;
  const model::Config& config = engine.model().config();
  const model::LayerConfig& layer = config.heads_layer();
  const auto key = [&](const char* name) { return fmt::format("{}.{}", config.arch, name); };
  Json info = {{"general.architecture", config.arch},
               {"general.basename", without_latest(served.name)},  // Copilot shows it
               {"general.parameter_count", engine.file_summary().parameters}};
  info[key("context_length")] = config.context;
  info[key("embedding_length")] = config.dim;
  info[key("block_count")] = engine.model().all_layers();
  info[key("attention.head_count")] = layer.heads;
  info[key("attention.head_count_kv")] = layer.kv_heads;
  info[key("feed_forward_length")] = layer.ffn;
  info[key("vocab_size")] = config.vocab;
  return info;
}

// Returns what the model can do. Clients offer a model without "completion" for embeddings only.
Json capabilities_json(const engine::Engine& engine) {
  const model::Config& config = engine.model().config();
  Json list = Json::array();
  if (!config.both_ways()) list.push_back("completion");
  if (text::can_fill_in(engine.tokenizer().vocabulary())) list.push_back("insert");
  if (config.pooling && *config.pooling != model::Pooling::kRank) list.push_back("embedding");
  if (!engine.has_chat_template()) return list;
  if (engine.answer_syntax().messages.offers_tools) list.push_back("tools");
  if (knows_thoughts(engine)) list.push_back("thinking");
  return list;
}

}  // namespace

std::string tagged_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  const bool tagged = name.find(':', begin) != std::string_view::npos;
  return std::string(name).append(tagged ? "" : kLatest);
}

bool same_model(std::string_view one, std::string_view other) {
  return without_latest(one) == without_latest(other);
}

bool knows_thoughts(const engine::Engine& engine) {
  const text::AnswerSyntax& syntax = engine.answer_syntax();
  const std::string& source = engine.tokenizer().vocabulary().chat_template;
  const auto has = [&](std::string_view word) {
    return !word.empty() && source.find(word) != std::string::npos;
  };
  return syntax.channels || has(syntax.think_open) || has(syntax.think_close) ||
         has("enable_thinking") || has("reasoning_content");
}

Json tag_json(const OllamaModel& model) {
  Json one = listed_json(model, model.engine.file_bytes());
  one["modified_at"] = rfc3339(model.began);
  return one;
}

Json running_json(const OllamaModel& model) {
  Json one = listed_json(model, model.engine.model().weight_bytes());
  one["expires_at"] = kNever;
  one["size_vram"] = 0;
  one["context_length"] = model.context;
  return one;
}

Json absent_tag_json(const std::string& name, uint64_t bytes, int64_t began) {
  const std::string tagged = tagged_name(name);
  return {{"name", tagged},
          {"model", tagged},
          {"size", bytes},
          {"digest", kNoDigest},
          {"details",
           {{"parent_model", ""},
            {"format", ""},
            {"family", ""},
            {"families", Json::array()},
            {"parameter_size", ""},
            {"quantization_level", ""}}},
          {"modified_at", rfc3339(began)}};
}

Json show_json(const OllamaModel& model) {
  return {{"parameters", fmt::format("num_ctx {}", model.context)},
          {"template", model.engine.tokenizer().vocabulary().chat_template},
          {"details", details_json(model)},
          {"model_info", info_json(model)},
          {"capabilities", capabilities_json(model.engine)},
          {"modified_at", rfc3339(model.began)}};
}

}  // namespace kvick::server
