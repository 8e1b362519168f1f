// Requests that select an adapter by the model's name or by llama-server's field.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/adapters/test_adapter.h"
#include "server/testing/api.h"

namespace kvick::server {
namespace {

// The engine that all tests here share, with adapters "sql" and "chat", whose scale is 0.5.
const engine::Engine& adapted_engine() {
  static const std::unique_ptr<engine::Engine> kEngine = [] {
    base::ThreadPool pool(1);
    const tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
    engine::EngineOptions options;
    options.model_path = model::write_model(spec, pool, false);
    options.threads = 1;
    options.adapters = {
        {.name = "sql", .path = model::write_adapter("sql", spec, {})},
        {.name = "chat", .path = model::write_adapter("chat", spec, {.seed = 2}), .scale = 0.5F}};
    auto opened = engine::Engine::open(options);
    std::filesystem::remove(options.model_path);  // mapped, so it must not be overwritten
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return std::move(opened).value();
  }();
  return *kEngine;
}

class LoraApi : public ApiTest {
 protected:
  void SetUp() override { make({}, adapted_engine()); }
  // Returns the adapter of a completion with these fields, and its scale.
  std::pair<std::string, float> used(const std::string& fields) {
    service_.jobs.clear();
    const Seen seen = posted("/v1/completions", ("{\"prompt\":\"x\"" + fields + "}").c_str());
    EXPECT_EQ(service_.jobs.size(), 1U) << seen.response.body;
    if (service_.jobs.empty()) return {"refused", 0};
    const engine::AdapterUse& use = service_.jobs[0].adapter;
    return {use.weights() != nullptr ? use.adapter->name : "", use.scale};
  }
  std::string refusal(const std::string& fields, int status) {
    service_.jobs.clear();
    const Seen seen = posted("/v1/completions", ("{\"prompt\":\"x\"" + fields + "}").c_str());
    EXPECT_TRUE(service_.jobs.empty()) << fields;
    EXPECT_EQ(seen.response.status, status) << seen.response.body;
    return seen.json()["error"]["message"];
  }
};

using Used = std::pair<std::string, float>;

TEST_F(LoraApi, TakesTheAdapterThatModelNames) {
  EXPECT_EQ(used(R"(,"model":"sql")"), Used("sql", 1));
  EXPECT_EQ(used(R"(,"model":"chat")"), Used("chat", 0.5F));
  EXPECT_EQ(used(R"(,"model":"tiny")").first, "");
  EXPECT_EQ(used("").first, "");
}

TEST_F(LoraApi, TakesLlamaServersField) {
  EXPECT_EQ(used(R"(,"lora":[{"id":1,"scale":0.25}])"), Used("chat", 0.25F));
  EXPECT_EQ(used(R"(,"lora":[{"id":0},{"id":1,"scale":0}])"), Used("sql", 1));
  EXPECT_EQ(used(R"(,"lora":[{"id":0,"scale":0}])").first, "");
  EXPECT_EQ(used(R"(,"lora":[])").first, "");
}

TEST_F(LoraApi, AnswersInTheAdaptersName) {
  Seen seen;
  post(seen, "/v1/chat/completions",
       R"({"model":"sql","messages":[{"role":"user","content":"Hi"}]})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_NE(service_.jobs[0].adapter.weights(), nullptr);
  answer(0);
  end(0);
  EXPECT_EQ(seen.json()["model"], "sql");
}

TEST_F(LoraApi, EmbedsWithAnAdapter) {
  posted("/v1/embeddings", R"({"model":"chat","input":"a"})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_EQ(
      service_.jobs[0].adapter.key(),
      (engine::AdapterUse{engine::find_adapter(adapted_engine().adapters(), "chat"), 0.5F}.key()));
}

TEST_F(LoraApi, AdaptersAreModelsOnOllamasRoutes) {
  for (const char* name : {"chat", "chat:latest"}) {
    service_.jobs.clear();
    Seen seen;
    post(seen, "/api/generate",
         fmt::format(R"({{"model":"{}","prompt":"x","stream":false}})", name).c_str());
    ASSERT_EQ(service_.jobs.size(), 1U) << seen.response.body;
    const engine::AdapterUse& use = service_.jobs[0].adapter;
    ASSERT_NE(use.weights(), nullptr);
    EXPECT_EQ(Used(use.adapter->name, use.scale), Used("chat", 0.5F));
    answer(0);
    end(0);
    EXPECT_EQ(seen.json()["model"], name);
  }
  service_.jobs.clear();
  posted("/api/embed", R"({"model":"sql","input":"x"})");
  posted("/api/chat", R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}]})");
  ASSERT_EQ(service_.jobs.size(), 2U);
  EXPECT_EQ(service_.jobs[0].adapter.adapter->name, "sql");
  EXPECT_EQ(service_.jobs[1].adapter.weights(), nullptr);
  const Seen refused = posted("/api/generate", R"({"model":"poet","prompt":"x"})");
  EXPECT_EQ(refused.response.status, 404);
  EXPECT_NE(refused.response.body.find("sql"), std::string::npos) << refused.response.body;
}

TEST_F(LoraApi, OllamasRoutesListAndShowAdapters) {
  const Json models = get("/api/tags").json()["models"];
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(models[0]["details"]["parent_model"], "");
  EXPECT_EQ(models[2]["name"], "chat:latest");
  EXPECT_EQ(models[2]["details"]["parent_model"], "tiny:latest");
  const Json shown = posted("/api/show", R"({"model":"sql"})").json();
  EXPECT_EQ(shown["details"]["parent_model"], "tiny:latest");
  EXPECT_EQ(posted("/api/show", R"({"model":"tiny"})").json()["details"]["parent_model"], "");
  EXPECT_EQ(get("/api/ps").json()["models"].size(), 1U);
}

TEST_F(LoraApi, RefusesWhatIsNotThereAndSaysWhatIs) {
  const auto says = [](const std::string& message, const char* expected) {
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  says(refusal(R"(,"model":"poet")", 404), R"(this server has "tiny", "sql", "chat")");
  says(refusal(R"(,"lora":[{"id":2}])", 400), "0 (sql), 1 (chat)");
  says(refusal(R"(,"lora":[{"id":0},{"id":1}])", 400), "a request is computed with one");
  says(refusal(R"(,"model":"sql","lora":[{"id":0}])", 400), "leave lora out");
  says(refusal(R"(,"lora":{"id":0})", 400), "a list of adapters");
  says(refusal(R"(,"lora":[{"scale":1}])", 400), "needs the id");
  refusal(R"(,"lora":[{"id":-1}])", 400);
  refusal(R"(,"lora":[{"id":0,"scale":"big"}])", 400);
  refusal(R"(,"lora":[7])", 400);
}

TEST_F(LoraApi, ListsAdaptersAsVllmAndLlamaServerDo) {
  const Json models = get("/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(models[0]["id"], "tiny");
  EXPECT_FALSE(models[0].contains("parent"));
  EXPECT_EQ(models[1]["id"], "sql");
  EXPECT_EQ(models[1]["display_name"], "sql");
  EXPECT_EQ(models[1]["parent"], "tiny");
  EXPECT_EQ(get("/v1/models/chat").json()["parent"], "tiny");
  EXPECT_EQ(get("/v1/models/poet").response.status, 404);
  const Json adapters = get("/lora-adapters").json();
  ASSERT_EQ(adapters.size(), 2U);
  EXPECT_EQ(adapters[1]["id"], 1);
  EXPECT_EQ(adapters[1]["name"], "chat");
  EXPECT_EQ(adapters[1]["scale"], 0.5);
  EXPECT_EQ(adapters[1]["path"].get<std::string>().find('/'), std::string::npos);
  make();
  EXPECT_EQ(get("/lora-adapters").response.body, "[]");
}

// Endpoint pickers of Kubernetes choose servers by this metric, by vLLM's name.
TEST_F(LoraApi, MetricsNameTheAdaptersAsVllmDoes) {
  const std::string text = get("/metrics").response.body;
  EXPECT_NE(
      text.find("\n# TYPE vllm:lora_requests_info gauge\nvllm:lora_requests_info{max_lora=\"2\","
                "waiting_lora_adapters=\"\",running_lora_adapters=\"sql,chat\"} 1000\n"),
      std::string::npos)
      << text;
  make();
  EXPECT_EQ(get("/metrics").response.body.find("lora_requests_info"), std::string::npos);
}

}  // namespace
}  // namespace kvick::server
