// Jobs with different adapters are answered as if each ran alone, and share no rows.

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <list>

#include "engine/prefix/prefix_block.h"
#include "engine/prefix/prefix_files.h"
#include "engine/serving/test_jobs.h"
#include "engine/speculation/model_drafter.h"
#include "io/file/test_images.h"
#include "model/adapters/test_adapter.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

tools::Spec spec() {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.context = 256;
  return spec;
}

EngineOptions options_with_adapters() {
  base::ThreadPool pool(1);
  EngineOptions options;
  options.model_path = model::write_model(spec(), pool, false);
  options.threads = 2;
  options.fingerprint = true;
  options.adapters = {{.name = "one", .path = model::write_adapter("one", spec(), {})},
                      {.name = "two",
                       .path = model::write_adapter("two", spec(), {.rank = 3, .seed = 2}),
                       .scale = 0.5F}};
  return options;
}

class SchedulerAdapters : public testing::Test {
 protected:
  void SetUp() override {
    const EngineOptions options = options_with_adapters();
    auto engine = Engine::open(options);
    // It stays mapped, so no other test may overwrite it.
    std::filesystem::remove(options.model_path);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    engine_ = std::move(engine).value();
  }
  AdapterUse use(const char* name, float scale = 1) const {
    return {.adapter = find_adapter(engine_->adapters(), name), .scale = scale};
  }
  std::vector<AdapterUse> uses() const { return {{}, use("one"), use("two"), use("one", 0.5F)}; }

  static Heard answer(Scheduler& scheduler, std::vector<Token> prompt, AdapterUse adapter,
                      std::string salt = "") {
    Heard heard;
    Job job = job_of(std::move(prompt), 3);
    job.adapter = std::move(adapter);
    job.salt = std::move(salt);
    listen(job, heard);
    scheduler.add(JobId{next_id_++}, std::move(job));
    run_all(scheduler);
    EXPECT_TRUE(heard.outcome.has_value() && !heard.outcome->error);
    return heard;
  }

  static inline uint64_t next_id_ = 1;
  std::unique_ptr<Engine> engine_;
};

std::vector<Token> prompt_of(uint32_t tokens) {
  std::vector<Token> prompt(tokens);
  for (uint32_t i = 0; i < tokens; ++i) prompt[i] = 20 + i % 64;
  return prompt;
}

TEST_F(SchedulerAdapters, AnswersABatchOfSeveralAsEachAlone) {
  for (const char* drafts : {"none", "lookup:gain=off"}) {
    SchedulerOptions options;
    options.kv = parse_kv_options("paged", "").value();
    options.spec = parse_spec_options(drafts).value();
    const auto scheduler = std::move(Scheduler::make(*engine_, options)).value();
    std::list<Heard> heard;
    std::vector<Job> jobs;
    for (uint32_t i = 0; i < 12; ++i) {
      Job job = job_of(prompt_of(20 + i), 25);  // with a common prefix
      job.adapter = uses()[i % 4];
      job.choices = 1 + i % 2;
      job.sampling.temperature = i % 3 == 0 ? 0.7F : 0.0F;
      jobs.push_back(job);
      listen(job, heard.emplace_back());
      scheduler->add(JobId{i + 1}, std::move(job));
      if (i % 3 == 2) scheduler->step();
    }
    run_all(*scheduler);
    auto got = heard.begin();
    for (const Job& job : jobs) {
      for (uint32_t choice = 0; choice < job.choices; ++choice)
        EXPECT_EQ(got->tokens[choice], alone(*engine_, job, choice, options.kv).tokens) << drafts;
      ++got;
    }
  }
}

// Speculation by the model itself with no layer skipped: its draft tokens must be those that the
// model generates with the request's adapter.
TEST_F(SchedulerAdapters, DraftsWithTheRequestsAdapter) {
  const std::vector<Token> prompt = prompt_of(20);
  std::vector<std::vector<Token>> drafted;
  for (const AdapterUse& adapter : uses()) {
    Job job = job_of(prompt, 4);
    job.adapter = adapter;
    const auto store = std::move(engine_->make_store({})).value();
    model::Executor executor = engine_->make_executor();
    const kv::SeqId seq = store->open({}).seq;
    const model::Slot slot = {.seq = seq,
                              .tokens = std::span(prompt).first(prompt.size() - 1),
                              .adapter = adapter.weights(),
                              .adapter_scale = adapter.scale};
    ASSERT_TRUE(executor.advance(*store, {.slots = {&slot, 1}}, {}).ok());
    const Acceptance acceptance;
    const Sampler greedy({.temperature = 0}, engine_->kernels());
    SkipDrafter drafter(*engine_, std::vector<bool>(2), acceptance);
    DraftTree tree;
    drafter.draft({.text = prompt,
                   .most = 4,
                   .depth = 4,
                   .store = store.get(),
                   .seq = seq,
                   .sampler = &greedy,
                   .adapter = adapter.weights(),
                   .adapter_scale = adapter.scale},
                  tree);
    std::vector<Token>& tokens = drafted.emplace_back();
    for (int32_t node = -1; const Token token : alone(*engine_, job, 0, {}).tokens) {
      if ((node = tree.child(node, token)) < 0) break;
      tokens.push_back(token);
    }
    EXPECT_GE(tokens.size(), 1U) << adapter.key();
  }
  EXPECT_NE(drafted[0], drafted[1]);
}

TEST_F(SchedulerAdapters, ComputesAPromptAnewUnderAnotherOne) {
  const auto scheduler = test::scheduler_of(*engine_, "paged");
  const std::vector<Token> prompt = prompt_of(60);
  std::vector<Heard> first;
  for (const AdapterUse& adapter : uses()) {
    first.push_back(answer(*scheduler, prompt, adapter));
    EXPECT_EQ(first.back().outcome->cached_tokens, 0U) << adapter.key();
  }
  for (size_t i = 0; i < first.size(); ++i) {
    Heard again = answer(*scheduler, prompt, uses()[i]);
    EXPECT_EQ(again.outcome->cached_tokens, 59U) << i;
    EXPECT_EQ(again.tokens[0], first[i].tokens[0]) << i;
  }
  EXPECT_NE(first[0].logprobs[0], first[1].logprobs[0]);
  EXPECT_NE(first[1].logprobs[0], first[3].logprobs[0]);
  // Scale 0 is the model alone. A salt separates the rows of one adapter too.
  EXPECT_EQ(answer(*scheduler, prompt, use("one", 0)).outcome->cached_tokens, 59U);
  EXPECT_EQ(answer(*scheduler, prompt, use("one"), "a").outcome->cached_tokens, 0U);
}

TEST_F(SchedulerAdapters, KeepsRowsApartInFiles) {
  const io::TestFolder folder;
  size_t before = 0, blocks = 0;
  for (const AdapterUse& adapter : uses()) {
    SchedulerOptions options;
    options.kv = parse_kv_options("paged", "").value();
    options.files = std::move(PrefixFiles::open({.folder = folder.path()})).value();
    const auto scheduler = std::move(Scheduler::make(*engine_, options)).value();
    EXPECT_EQ(answer(*scheduler, prompt_of(200), adapter).outcome->cached_tokens, 0U);
    options.files->flush();
    using Files = std::filesystem::recursive_directory_iterator;
    const auto files =
        static_cast<size_t>(std::count_if(Files(folder.path()), Files(), [](const auto& entry) {
          return entry.path().extension() == ".kv";
        }));
    if (blocks == 0) blocks = files;
    EXPECT_GT(files, 0U);
    EXPECT_EQ(files - before, blocks) << adapter.key();
    before = files;
  }
}

TEST(Adapters, AreKeyedApartFromSaltsAndArithmetics) {
  const BlockId with = prefix_root("model", "salt", "adapter");
  for (const BlockId& other :
       {prefix_root("model", "salt"), prefix_root("model", "saltadapter"),
        prefix_root("model", "adapter", "salt"), prefix_root("modelsalt", "", "adapter")})
    EXPECT_NE(with, other);
}

TEST(Adapters, AreReadFromWords) {
  const auto named = parse_adapter("sql=a/b=c:d.gguf:0.25", true);
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ(named->name, "sql");
  EXPECT_EQ(named->path, "a/b=c:d.gguf");
  EXPECT_EQ(named->scale, 0.25F);
  const auto path = parse_adapter("a:b/c", false);
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(path->path, "a:b/c");
  EXPECT_EQ(path->scale, 1.0F);
  for (const char* wrong : {"", "=x", "x", "x=", "x=:1", "x=y:inf", "x=y:nan"})
    EXPECT_FALSE(parse_adapter(wrong, true).ok()) << wrong;
}

TEST(Adapters, HaveNamesOfTheirOwn) {
  EngineOptions options = options_with_adapters();
  options.adapters[1].name = "one";
  const auto engine = Engine::open(options);
  std::filesystem::remove(options.model_path);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("two adapters are named one"), std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
