// States of bf16 in an engine (--kv-type state=bf16): their memory, which caches and files they
// share with states of f32, and what they lose.

#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

#include "engine/core/store_set.h"
#include "engine/eval/measure_types.h"
#include "engine/prefix/prefix_files.h"
#include "engine/prefix/prompt_cuts.h"
#include "engine/prefix/test_conversation.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using test::append;
using test::engine_of_family;
using test::Heard;
using test::job_of;
using test::listen;
using test::message_of;
using test::run_all;

constexpr const char* kStrategy = "paged:block=8";

KvOptions options_of(std::string_view type) { return parse_kv_options(kStrategy, type).value(); }

class StateTypes : public testing::TestWithParam<const char*> {
 protected:
  // Floats of a sequence's states.
  uint64_t floats() const {
    uint64_t floats = 0;
    for (const model::LayerConfig& layer : engine_->model().config().layers)
      if (layer.kind == model::LayerConfig::Kind::kState) floats += layer.state.floats();
    return floats;
  }

  const std::unique_ptr<Engine> engine_ = engine_of_family(GetParam(), 1024);
};
#if defined(KVICK_SANITIZED)
INSTANTIATE_TEST_SUITE_P(Families, StateTypes, testing::Values("lfm2"));
#else
INSTANTIATE_TEST_SUITE_P(Families, StateTypes,
                         testing::Values("lfm2", "mamba2", "granitehybrid", "qwen35"));
#endif

TEST_P(StateTypes, TakeHalfTheMemoryAsPlanned) {
  const KvOptions exact = options_of(""), half = options_of("state=bf16");
  const kv::Load load = {.tokens = 90, .sequences = 3};
  const auto planned = engine_->cost(exact, load), planned_half = engine_->cost(half, load);
  ASSERT_TRUE(planned.ok() && planned_half.ok());
  ASSERT_GT(floats(), 0u);
  // A step has two states per sequence.
  EXPECT_EQ(planned->fast_bytes - planned_half->fast_bytes, 3 * 2 * 2 * floats());
  EXPECT_EQ(planned->read_bytes_per_token - planned_half->read_bytes_per_token, 2 * floats());
  const auto store = std::move(engine_->make_store(half)).value();
  Session session(*engine_, *store);
  Request request;
  request.prompt = message_of(1, 30, 1);
  request.max_tokens = 61;  // the last token has no row
  request.sampling.temperature = 0;
  request.ignore_end = true;
  ASSERT_TRUE(session.generate(request).ok());
  EXPECT_EQ(store->usage().used_bytes, store->info().used_bytes(90));
  EXPECT_EQ(store->usage().used_bytes + 2 * floats(), engine_->store_info(exact).used_bytes(90));
}

TEST_P(StateTypes, HaveCachesOfTheirOwn) {
  auto set = std::move(StoreSet::make(*engine_, options_of(""),
                                      std::make_shared<kv::Budget>(uint64_t{1} << 30)))
                 .value();
  StoreKind* const half = set.find(options_of("state=bf16")).value();
  EXPECT_NE(half, &set.standard());
  EXPECT_EQ(half->type, "f16,state=bf16");
  EXPECT_EQ(set.standard().type, "f16");
  EXPECT_EQ(set.find(options_of("f16,state=bf16")).value(), half);
  EXPECT_EQ(set.find(options_of("state=f32")).value(), &set.standard());
}

TEST_P(StateTypes, OfARequestAreTheServersUnlessItNamesThem) {
  SchedulerOptions options;
  options.kv = options_of("state=bf16");
  const auto scheduler = std::move(Scheduler::make(*engine_, options)).value();
  Heard heard[3];
  const char* const kinds[] = {"f32", "f32,state=f32", "state=f32"};
  for (uint64_t i = 0; i < 3; ++i) {
    Job job = job_of(message_of(1, 20, 1), 3);
    job.kv = parse_kv_options("", kinds[i]).value();
    listen(job, heard[i]);
    scheduler->add(JobId{i + 1}, job);
  }
  run_all(*scheduler);
  std::set<std::string> types;
  for (const StoreState& store : scheduler->state().stores) types.insert(store.type);
  EXPECT_EQ(types, (std::set<std::string>{"f16", "f16,state=bf16", "f32", "f32,state=bf16"}));
  for (const Heard& one : heard) {
    ASSERT_TRUE(one.outcome.has_value());
    EXPECT_FALSE(one.outcome->error.has_value()) << one.outcome->error->message;
  }
}

TEST_P(StateTypes, ReadNoFilesOfAnotherType) {
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("kvick-state-types-{}", ::getpid());
  fs::remove_all(folder);
  const Token turn = turn_token_of(*engine_).value_or(1);
  std::vector<Token> prompt = message_of(turn, 200, 1);
  append(prompt, message_of(turn, 60, 2));
  append(prompt, std::vector<Token>{turn, 7, 8});
  // Returns how many tokens of the prompt a new server with such states finds.
  const auto found = [&](const char* type) {
    const std::shared_ptr<PrefixTier> files =
        std::move(PrefixFiles::open({.folder = folder})).value();
    SchedulerOptions options;
    options.kv = options_of(type);
    options.files = files;
    options.file_seconds = 60;
    const auto scheduler = std::move(Scheduler::make(*engine_, options)).value();
    Heard heard;
    Job job = job_of(prompt, 4);
    listen(job, heard);
    scheduler->add(JobId{1}, job);
    run_all(*scheduler);
    files->flush();
    EXPECT_FALSE(heard.outcome->error.has_value()) << heard.outcome->error->message;
    return heard.outcome->cached_tokens;
  };
  EXPECT_EQ(found(""), 0u);
  EXPECT_EQ(found("state=bf16"), 0u);
  EXPECT_GT(found(""), 0u);
  EXPECT_GT(found("state=bf16"), 0u);
  fs::remove_all(folder);
}

// If a window were read in one step, its states would be rounded at its end only, and nothing would
// be lost.
TEST_P(StateTypes, LoseAsInDecoding) {
  std::vector<Token> text;
  for (int i = 0; i < 128; ++i) text.push_back(static_cast<Token>((i * i * 7 + i) % 256));
  const auto measured =
      measure_types(*engine_, text, {.types = {"f16", "f16,state=bf16"}, .window = 64});
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  ASSERT_EQ(measured->types.size(), 2u);
  EXPECT_EQ(measured->types[0].type, "f16");
  EXPECT_EQ(measured->types[0].kl_mean, 0);
  EXPECT_EQ(measured->types[1].type, "f16,state=bf16");
  EXPECT_GT(measured->types[1].kl_mean, 0);
  EXPECT_LT(measured->types[1].kl_mean, 0.05);
  EXPECT_EQ(measured->types[0].bytes_per_token - measured->types[1].bytes_per_token,
            static_cast<double>(2 * floats()) / 64);
}

TEST_P(StateTypes, OfAMeasurementCountOnlyWhereTheyAreKept) {
  const std::string path =
      (fs::temp_directory_path() / fmt::format("kvick-state-types-{}.kvt", ::getpid())).string();
  const TypesFile file = {
      .model = engine_->identity(),
      .text = "a.txt",
      .types = {{.type = "f32", .bytes_per_token = 256},
                {.type = "f16", .bytes_per_token = 128, .kl_mean = 0.001},
                {.type = "bf16,state=bf16", .bytes_per_token = 100, .kl_mean = 0.002}}};
  ASSERT_TRUE(write_types(path, file).ok());
  const auto chosen = [&](const std::string& state) {
    const std::string text = fmt::format("auto:kl=0.01,file={}{}", path, state);
    return kv_type_text(engine_->resolved(parse_kv_options("", text).value()));
  };
  EXPECT_EQ(chosen(""), "f16");
  EXPECT_EQ(chosen(",state=f32"), "f16");
  EXPECT_EQ(chosen(",state=bf16"), "bf16,state=bf16");
  fs::remove(path);
}

TEST(StateTypesOption, IsRefusedWhereNoLayerKeepsAState) {
  const auto engine = tiny_engine();
  const auto refused = engine->make_store(parse_kv_options("", "state=bf16").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no layer of this model keeps one"), std::string::npos);
  EXPECT_FALSE(engine->check_kv(parse_kv_options("", "q8,state=bf16").value()).ok());
  EXPECT_TRUE(engine->make_store(parse_kv_options("", "state=f32").value()).ok());
}

}  // namespace
}  // namespace kvick::engine
