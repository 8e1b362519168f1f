#pragma once
// A service without a model, and an engine for its tokenizer.

#include <fstream>

#include "engine/core/test_engine.h"
#include "engine/serving/service.h"

namespace kvick::server {

// The engine that all tests of a program share. Its chat template writes <role>content for each
// message.
inline const engine::Engine& test_engine() {
  static const std::unique_ptr<engine::Engine> kEngine = [] {
    base::ThreadPool pool(1);
    const auto folder = model::write_model(model::tiny_spec(tools::Arch::kLlama), pool, true);
    std::ofstream(folder + "/chat_template.jinja")
        << "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
           "{% if tools %}[{{ tools | length }} tools]{% endif %}"
           "{% if messages[0].content == 'refuse me' %}{{ raise_exception('refused') }}{% endif %}";
    engine::EngineOptions options;
    options.model_path = folder;
    options.threads = 1;
    auto opened = engine::Engine::open(options);
    std::filesystem::remove_all(folder);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return std::move(opened).value();
  }();
  return *kEngine;
}

// Accepts jobs and does nothing with them; the test decides how they end.
class ManualService : public engine::Service {
 public:
  base::Result<engine::JobId, engine::Refusal> submit(engine::Job job) override {
    if (jobs.size() == refuse_from) return refusal;
    jobs.push_back(std::move(job));
    return engine::JobId(jobs.size() - 1);
  }
  std::optional<engine::Refusal> refuses_now() override {
    return full ? std::optional(refusal) : std::nullopt;
  }
  void cancel(engine::JobId job) override { cancelled.push_back(static_cast<size_t>(job)); }
  void flush() override { ++flushes; }
  engine::Metrics metrics() const override { return counts; }
  engine::CacheState cache() const override {
    engine::CacheState state = {.limit_bytes = 99};
    state.stores.push_back({.strategy = "paged", .type = "q8", .pieces = {{.bytes = 5}}});
    state.sequences.push_back({.job = 3, .state = engine::JobState::kSwapped});
    return state;
  }
  uint32_t context() const override { return 512; }

  engine::Metrics counts = {.finished = 7};
  std::vector<engine::Job> jobs;
  std::vector<size_t> cancelled;
  int flushes = 0;
  size_t refuse_from = SIZE_MAX;
  engine::Refusal refusal;
  bool full = false;  // refuses every request with `refusal`
};

}  // namespace kvick::server
