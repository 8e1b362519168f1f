#include "engine/engine.h"

#include <fstream>
#include <gtest/gtest.h>

#include "engine/test_engine.h"
#include "model/test_model.h"

namespace kvick::engine {
namespace {

// What the template makes of no messages, with the options given.
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
