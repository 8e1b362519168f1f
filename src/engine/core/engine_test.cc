#include "engine/core/engine.h"

#include <fstream>
#include <gtest/gtest.h>

#include "engine/core/test_engine.h"
#include "engine/session/session.h"
#include "model/core/test_model.h"

namespace kvick::engine {
namespace {

// Returns the template's output for no messages, with the options given.
std::string rendered(const std::string& chat_template, EngineOptions options) {
  base::ThreadPool pool(1);
  const std::string folder = model::write_model(model::tiny_spec(tools::Arch::kLlama), pool, true);
  std::ofstream(folder + "/chat_template.jinja") << chat_template;
  options.model_path = folder;
  options.threads = 1;
  const auto engine = Engine::open(options);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  const auto text = (*engine)->render_chat(nlohmann::ordered_json::array());
  EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
  return *text;
}

TEST(Engine, TellsChatTemplatesTheDateThatItWasGiven) {
  EngineOptions options;
  options.now = [] {
    std::tm day{};
    day.tm_year = 131, day.tm_mon = 1, day.tm_mday = 3;
    return day;
  };
  EXPECT_EQ(rendered("{{ strftime_now('%Y-%m-%d') }}", options), "2031-02-03");
}

TEST(Engine, TellsChatTemplatesTodaysDate) {
  const auto year = [] { return std::to_string(base::local_time().tm_year + 1900); };
  const std::string before = year(), text = rendered("{{ strftime_now('%Y') }}", {});
  EXPECT_TRUE(text == before || text == year()) << text;
}

TEST(Engine, AChatHasNothingBehindItAndOnceBeforeItWhatItsTokenizerAdds) {
  base::ThreadPool pool(1);
  const std::string folder = model::write_model(model::tiny_spec(tools::Arch::kLlama), pool, true);
  std::ifstream file(folder + "/tokenizer.json");
  nlohmann::json tokenizer = nlohmann::json::parse(file);
  const std::string name = tokenizer["added_tokens"][0]["content"];
  const nlohmann::json token = {{"SpecialToken", {{"id", name}}}};
  const nlohmann::json text = {{"Sequence", {{"id", "A"}}}};
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", {token, token, text, token}}};
  std::ofstream(folder + "/tokenizer.json") << tokenizer.dump();
  const auto id = tokenizer["added_tokens"][0]["id"].get<Token>();
  for (const std::string& chat : {std::string("a"), name + name + "a"}) {
    std::ofstream(folder + "/chat_template.jinja") << chat;
    EngineOptions options;
    options.model_path = folder;
    options.threads = 1;
    const auto engine = Engine::open(options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    const auto tokens = (*engine)->chat_tokens(nlohmann::ordered_json::array());
    ASSERT_TRUE(tokens.ok()) << tokens.error().message;
    ASSERT_EQ(tokens->size(), 3u) << chat;
    EXPECT_EQ(tokens->at(0), id);
    EXPECT_EQ(tokens->at(1), id);
    EXPECT_EQ((*engine)->tokenizer().encode("a", true, true).size(), 4u);
  }
  std::filesystem::remove_all(folder);
}

std::string store_error(const Engine& engine, std::string_view spec, std::string_view type) {
  const auto store = engine.make_store(parse_kv_options(spec, type).value());
  return store.ok() ? "" : store.error().message;
}

TEST(Engine, KeepsAMemoryForAModelThatWasTrainedWithOneAndRowsForOthers) {
  const auto bct = engine_of(model::tiny_spec(tools::Arch::kBct)), llama = tiny_engine();
  const KvOptions memory = bct->resolved({}), rows = llama->resolved({});
  EXPECT_EQ(memory.spec.name, "bounded");
  EXPECT_EQ(memory.k_type, kernels::DType::kF32);
  EXPECT_EQ(memory.v_type, kernels::DType::kF32);
  EXPECT_EQ(rows.spec.name, "virtual");
  EXPECT_EQ(rows.k_type, kernels::DType::kF16);
  EXPECT_EQ(llama->resolved(parse_kv_options("paged", "v=q8").value()).spec.name, "paged");
  EXPECT_EQ(llama->resolved(parse_kv_options("", "v=q8").value()).v_type, kernels::DType::kQ8);

  EXPECT_EQ(store_error(*bct, "", ""), "");
  EXPECT_EQ(store_error(*bct, "bounded", "f32"), "");
  EXPECT_EQ(store_error(*bct, "virtual", ""),
            "the model was trained with a memory of slots, which virtual does not keep: use "
            "bounded");
  EXPECT_EQ(store_error(*bct, "", "f16"),
            "bounded adds every token to the same memory, which it keeps as f32: leave the type of "
            "keys and values out, or give f32");
  EXPECT_NE(store_error(*llama, "bounded", "").find("architecture bct"), std::string::npos);
}

TEST(Engine, TakesOneMemoryOfSlotsHoweverManyTokensASessionHolds) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kBct);
  const auto engine = engine_of(spec);
  const uint64_t bytes = uint64_t{spec.layers} * spec.kv_heads * spec.slots * spec.head_dim * 4;
  const auto store = std::move(engine->make_store({})).value();
  Session session(*engine, *store);
  for (const uint32_t tokens : {3U, 400U}) {
    Request request;
    for (uint32_t i = 0; i < tokens; ++i) request.prompt.push_back(static_cast<Token>(i % 500));
    request.max_tokens = 20;
    request.sampling.temperature = 0;
    request.ignore_end = true;
    const auto answer = session.generate(request);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->tokens.size(), 20u);
    EXPECT_EQ(store->usage().used_bytes, bytes);
    EXPECT_EQ(store->usage().allocated_bytes, bytes);
  }
  EXPECT_EQ(engine->cost({}, {.tokens = 400, .sequences = 3})->fast_bytes, 3 * bytes);
}

TEST(Engine, KnowsTheSizeAndTheTypeOfItsFilesWeights) {
  const auto engine = tiny_engine(128, kernels::DType::kQ8_0);
  const FileSummary& file = engine->file_summary();
  EXPECT_EQ(file.container, io::Container::kGguf);
  EXPECT_EQ(file.weights, kernels::DType::kQ8_0);
  const uint64_t layer = 64 * (64 + 2 * 32 + 64) + 3 * 64 * 96;
  EXPECT_GE(file.parameters, 2 * layer + 512 * 64);
  EXPECT_LT(file.parameters, 2 * layer + 2 * 512 * 64 + 1000);
}

TEST(Engine, EndsAnEndlessCacheWhereAModelsLearnedPositionsEnd) {
  base::ThreadPool pool(1);
  tools::Spec spec = model::tiny_spec(tools::Arch::kOpt);
  spec.context = 64;
  const std::string path = model::write_model(spec, pool, true);
  const auto opt = Engine::open({.model_path = path, .threads = 1}).value();
  std::filesystem::remove_all(path);
  const KvOptions sliding = {.spec = {.name = "sliding", .options = {}}, .max_tokens = 16};
  EXPECT_EQ(opt->most_tokens(sliding), 64u);
  EXPECT_EQ(opt->make_store(sliding).value()->most_tokens(), 64u);
  EXPECT_EQ(tiny_engine()->most_tokens(sliding), UINT32_MAX);
  EXPECT_EQ(tiny_engine(128)->most_tokens({}), 128u);
}

}  // namespace
}  // namespace kvick::engine
