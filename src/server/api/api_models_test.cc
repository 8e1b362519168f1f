// Several models behind one server.

#include <future>
#include <gtest/gtest.h>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

class ModelsTest : public ApiTest {
 protected:
  static constexpr const char* kNames[] = {"one", "two", "torn"};

  void SetUp() override { serve(); }
  ~ModelsTest() override { api_.reset(); }  // before the host

  // Serves three models; loading "torn" fails.
  void serve(HostOptions host_options = {.max_bytes = 100}, bool any_model = false) {
    api_.reset();
    std::vector<ModelSource> sources;
    for (size_t i = 0; i < 2; ++i)
      sources.push_back({.name = kNames[i], .bytes = 5, .load = [this, i] {
                           return base::Result<LoadedModel>(model(i));
                         }});
    sources.push_back({.name = kNames[2], .bytes = 5, .load = [] {
                         return base::Result<LoadedModel>(base::fail("its file is torn"));
                       }});
    host_ = std::make_unique<ModelHost>(std::move(sources), std::move(host_options));
    ASSERT_TRUE(host_->load(0).ok());
    const Post at_once = [](const std::function<void()>& task) { task(); };
    api_ = std::make_unique<Api>(*host_,
                                 ApiOptions{.any_model = any_model,
                                            .keys = ApiKeys(),
                                            .random = [n = uint64_t{0}]() mutable { return ++n; },
                                            .unix_time = [] { return 1000; },
                                            .report = {}},
                                 Threads{at_once, at_once, at_once}, counters_);
  }
  LoadedModel model(size_t i) {
    return {.owner = nullptr,
            .engine = &test_engine(),
            .service = &services_[i],
            .constraint = [](const Json&) { return base::fail("none"); },
            .bytes = 5};
  }
  // Waits until a model is loaded: its first request is answered on the host's thread.
  void load(size_t i) {
    const auto loaded = std::make_shared<std::promise<void>>();
    auto done = loaded->get_future();
    host_->when_loaded(i, [loaded](const ApiResult<ModelHost::Lease>&) { loaded->set_value(); });
    done.get();
  }
  size_t jobs_of(size_t i) const { return services_[i].jobs.size(); }

  std::unique_ptr<ModelHost> host_;
  ManualService services_[2];
};

constexpr const char* kTwo = R"({"prompt":"x","model":"two"})";

TEST_F(ModelsTest, AnswersWithTheModelThatARequestNames) {
  Seen first, second;
  post(first, "/v1/completions", R"({"prompt":"x"})");  // the first model answers
  EXPECT_EQ(jobs_of(0), 1U);
  load(1);
  post(second, "/v1/completions", kTwo);
  ASSERT_EQ(jobs_of(1), 1U);
  services_[1].jobs[0].on_piece({.text = "a", .finish = engine::Finish::kEnd});
  services_[1].jobs[0].on_end({.prompt_tokens = 1, .generated_tokens = 1, .error = {}});
  EXPECT_EQ(second.json()["model"], "two");
  EXPECT_EQ(first.answers, 0);
}

TEST_F(ModelsTest, ChoosesByNameInEveryApi) {
  load(1);
  constexpr const char* kMessages = R"({"model":"two","max_tokens":1,
      "messages":[{"role":"user","content":"Hi"}]})";
  const std::pair<const char*, const char*> requests[] = {
      {"/v1/chat/completions", kMessages},
      {"/v1/messages", kMessages},
      {"/v1/responses", R"({"model":"two","input":"Hi"})"},
      {"/v1/embeddings", R"({"model":"two","input":"Hi"})"},
      {"/v1/rerank", R"({"model":"two","query":"a","documents":["b"]})"},
      {"/api/chat", R"({"model":"two:latest","messages":[{"role":"user","content":"Hi"}]})"},
      {"/api/generate", R"({"model":"two","prompt":"Hi"})"},
      {"/api/embed", R"({"model":"two","input":"Hi"})"}};
  for (const auto& [path, body] : requests) {
    const size_t before = jobs_of(1);
    Seen seen;
    post(seen, path, body);
    EXPECT_GT(jobs_of(1), before) << path << " " << seen.response.body;
    services_[1].jobs.clear();
  }
  EXPECT_EQ(jobs_of(0), 0U);
}

TEST_F(ModelsTest, KeepsAModelInMemoryWhileItAnswers) {
  serve({.max_bytes = 5, .room_seconds = 0});
  Seen answered, refused;
  post(answered, "/v1/completions", R"({"prompt":"x"})");
  post(refused, "/v1/completions", kTwo);
  load(1);
  EXPECT_EQ(refused.response.status, 503U);
  services_[0].jobs.clear();  // the service drops the request
  load(1);
  EXPECT_EQ(host_->look(0), nullptr);
  EXPECT_NE(host_->look(1), nullptr);
}

TEST_F(ModelsTest, RefusesAnUnknownModelWithTheNamesOfAll) {
  const Seen seen = posted("/v1/completions", R"({"prompt":"x","model":"three"})");
  EXPECT_EQ(seen.response.status, 404U);
  EXPECT_EQ(seen.json()["error"]["code"], "model_not_found");
  const std::string message = seen.json()["error"]["message"];
  for (const char* name : kNames) EXPECT_NE(message.find(name), std::string::npos) << message;
  EXPECT_EQ(posted("/api/chat", R"({"model":"three"})").response.status, 404U);
  serve({.max_bytes = 100}, true);
  Seen taken;
  post(taken, "/v1/completions", R"({"prompt":"x","model":"three"})");
  EXPECT_EQ(jobs_of(0), 1U);
}

TEST_F(ModelsTest, ListsAllModelsAndWhichAreInMemory) {
  const Json list = get("/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["loaded"], true);
  EXPECT_EQ(list[0]["max_model_len"], 512);
  EXPECT_EQ(list[0]["context_length"], 512);
  EXPECT_EQ(list[0]["meta"],
            Json({{"n_ctx", 512}, {"n_ctx_train", test_engine().model().config().context}}));
  EXPECT_EQ(list[1]["id"], "two");
  EXPECT_EQ(list[1]["loaded"], false);
  EXPECT_EQ(get("/v1/models/two").json(), list[1]);
  EXPECT_EQ(get("/v1/models/three").response.status, 404U);
  EXPECT_EQ(get("/api/tags").json()["models"].size(), 3U);
  EXPECT_EQ(get("/api/tags").json()["models"][1]["name"], "two:latest");
  EXPECT_EQ(get("/api/tags").json()["models"][1]["digest"], "0000000000000000");
  EXPECT_EQ(get("/api/ps").json()["models"].size(), 1U);
  load(1);
  EXPECT_EQ(get("/api/ps").json()["models"].size(), 2U);
}

TEST_F(ModelsTest, CountsTheModelsApartAndTogether) {
  load(1);
  services_[0].counts = {.waiting = 1, .running = 2, .job_tokens = 7};
  services_[1].counts = {.waiting = 3, .job_tokens = 5};
  const std::string metrics = get("/metrics").response.body;
  for (const char* line :
       {"\nkvick_jobs{model=\"one\",state=\"waiting\"} 1\n",
        "\nkvick_jobs{model=\"two\",state=\"waiting\"} 3\n",
        "\nkvick_job_tokens{model=\"two\"} 5\n", "\nkvick_http_requests_total 0\n"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line;
  EXPECT_EQ(get("/get_load").json()[0]["num_reqs"], 6);
  const Json cache = get("/kv").json();
  ASSERT_EQ(cache["stores"].size(), 2U);
  EXPECT_EQ(cache["stores"][0]["model"], "one");
  EXPECT_EQ(cache["stores"][1]["model"], "two");
  EXPECT_EQ(cache["sequences"][1]["store"], 1);
  EXPECT_EQ(cache["limit_bytes"], 198);
  Seen flushed;
  call(flushed, {.method = "POST", .target = "/flush_cache"});
  EXPECT_EQ(services_[0].flushes + services_[1].flushes, 2);
}

TEST_F(ModelsTest, LoadsAModelForTheRequestThatNamesIt) {
  Seen seen;
  post(seen, "/v1/completions", kTwo);
  load(2);  // loads run in order, and this one also needs the host's thread
  ASSERT_EQ(jobs_of(1), 1U);
  EXPECT_EQ(seen.answers, 0);
}

TEST_F(ModelsTest, SaysWhyAModelCannotBeLoadedAndServesTheOthers) {
  Seen seen, ollama;
  post(seen, "/v1/completions", R"({"prompt":"x","model":"torn"})");
  load(2);
  EXPECT_EQ(seen.response.status, 500U);
  EXPECT_EQ(seen.json()["error"]["message"], "the model torn cannot be loaded: its file is torn");
  post(ollama, "/api/generate", R"({"model":"torn","prompt":"x"})");
  load(2);
  EXPECT_TRUE(ollama.json()["error"].is_string());
  Seen other;
  post(other, "/v1/completions", R"({"prompt":"x","model":"one"})");
  EXPECT_EQ(jobs_of(0), 1U);
}

TEST_F(ModelsTest, RefusesARequestWhereNoMoreMayWait) {
  serve({.max_bytes = 100, .most_waiting = 0});
  const Seen seen = posted("/v1/completions", kTwo);
  EXPECT_EQ(seen.response.status, 503U);
  EXPECT_EQ(seen.response.headers, (Headers{{"Retry-After", "1"}}));
}

TEST_F(ModelsTest, PullsAModelByItsNameWithoutLoadingIt) {
  EXPECT_EQ(posted("/api/pull", R"({"model":"two","stream":false})").response.status, 200U);
  EXPECT_EQ(host_->look(1), nullptr);
}

TEST_F(ApiTest, DescribesItsModelAsLlamaServerDoes) {
  make([](ApiOptions& options) { options.max_sequences = 7; });
  const Json props = get("/props").json();
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(props["default_generation_settings"]["params"]["temperature"], 1.0);
  EXPECT_EQ(props["default_generation_settings"]["params"]["top_k"], 0);
  EXPECT_EQ(props["total_slots"], 7);
  EXPECT_EQ(props["model_alias"], "tiny");
  EXPECT_EQ(props["model_path"], "tiny");  // no path of this machine
  EXPECT_EQ(props["modalities"]["vision"], false);
  EXPECT_EQ(props["is_sleeping"], false);
  EXPECT_TRUE(props["build_info"].get<std::string>().starts_with("kvick "));
  const text::Tokenizer& tokenizer = test_engine().tokenizer();
  EXPECT_EQ(props["chat_template"], tokenizer.vocabulary().chat_template);
  const auto& eos = tokenizer.vocabulary().eos;
  EXPECT_EQ(props["eos_token"], eos ? tokenizer.piece(*eos, true) : "");
}

TEST_F(ApiTest, SaysWhatToAskInsteadOfSlots) {
  const Seen seen = get("/slots?fail_on_no_slot=1");
  EXPECT_EQ(seen.response.status, 404U);
  EXPECT_NE(seen.response.body.find("/debug/requests"), std::string::npos);
}

TEST_F(ModelsTest, DescribesTheModelThatAQueryNames) {
  EXPECT_EQ(get("/props").json()["model_alias"], "one");
  const Json absent = get("/props?model=two").json();
  EXPECT_EQ(absent["model_alias"], "two");
  EXPECT_EQ(absent["is_sleeping"], true);
  EXPECT_FALSE(absent.contains("default_generation_settings"));
  EXPECT_FALSE(absent.contains("total_slots"));  // unknown here
  load(1);
  EXPECT_EQ(get("/props?model=two").json()["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(get("/props?model=three").response.status, 404U);
}

TEST_F(ApiTest, TellsTheNewerGatewayItsLoad) {
  make([](ApiOptions& options) { options.max_sequences = 8; });
  service_.counts = {.waiting = 2, .running = 3, .preempted = 1};
  service_.counts.kv_limit_bytes = 1000;
  service_.counts.kv.allocated_bytes = 600;
  service_.counts.kv.cached_bytes = 350;
  service_.counts.token_bytes = 5;
  const Json answer = get("/v1/loads?include=core,disagg,queues,memory").json();
  EXPECT_EQ(answer["timestamp"], "1970-01-01T00:16:40Z");
  EXPECT_EQ(answer["dp_rank_count"], 1);
  EXPECT_EQ(answer["loads"], Json::parse(R"([{"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":3,
                             "num_total_reqs":6,"token_usage":0.25,"num_used_tokens":50,
                             "max_total_num_tokens":200,"max_running_requests":8}])"));
}

TEST_F(ApiTest, TellsNoTokensOfLoadWhereTokensTakeNoMemory) {
  service_.counts = {.running = 1};
  service_.counts.kv_limit_bytes = 1000;
  service_.counts.kv.allocated_bytes = 1200;  // more than the limit is all of it
  EXPECT_EQ(get("/v1/loads").json()["loads"],
            Json::parse(R"([{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":0,
                             "num_total_reqs":1,"token_usage":1.0}])"));
}

// Both clients ask by the same path.
TEST_F(ApiTest, ListsModelsForOpenAisAndForAnthropicsClients) {
  const Json list = get("/v1/models?limit=1000").json();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(list["first_id"], "tiny");
  EXPECT_EQ(list["last_id"], "tiny");
  ASSERT_EQ(list["data"].size(), 1U);
  const Json& model = list["data"][0];
  EXPECT_EQ(model["object"], "model");
  EXPECT_EQ(model["created"], 1000);
  EXPECT_EQ(model["type"], "model");
  EXPECT_EQ(model["display_name"], "tiny");
  EXPECT_EQ(model["created_at"], "1970-01-01T00:16:40Z");
  EXPECT_EQ(model["max_input_tokens"], 512);
  EXPECT_EQ(get("/v1/models/tiny").json(), model);
}

// The gateway sees one server, whatever its number of models.
TEST_F(ModelsTest, AddsTheLoadsOfItsModelsForTheNewerGateway) {
  load(1);
  services_[0].counts = {.waiting = 1, .running = 2};
  services_[1].counts = {.waiting = 3};
  for (ManualService& service : services_) service.counts.kv_limit_bytes = 100;
  services_[0].counts.token_bytes = 10;
  services_[1].counts.token_bytes = 5;
  services_[1].counts.kv.allocated_bytes = 50;
  EXPECT_EQ(get("/v1/loads").json()["loads"],
            Json::parse(R"([{"dp_rank":0,"num_running_reqs":2,"num_waiting_reqs":4,
                             "num_total_reqs":6,"token_usage":0.25,"num_used_tokens":10,
                             "max_total_num_tokens":30}])"));
}

}  // namespace
}  // namespace kvick::server
