// Prompts of models with states, resumed from files and from the store: after a restart, after
// another process, and with files that are damaged or gone.

#include "engine/prefix/prefix_stops.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "engine/core/test_mixed.h"
#include "engine/prefix/prefix_files.h"
#include "engine/prefix/prompt_cuts.h"
#include "engine/prefix/test_conversation.h"
#include "engine/prefix/test_scripted_tier.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using test::alone;
using test::append;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;
using test::ScriptedTier;

class PrefixStops : public test::ConversationTest {
 protected:
  PrefixStops()
      : ConversationTest(2048),
        folder_(fs::temp_directory_path() / fmt::format("kvick-stops-{}", ::getpid())) {
    fs::remove_all(folder_);
  }
  ~PrefixStops() override { fs::remove_all(folder_); }

  // Simulates a restart: nothing is in memory.
  void restart(uint64_t bytes = UINT64_MAX) {
    scheduler_ = nullptr;
    files_ = std::move(PrefixFiles::open({.folder = folder_})).value();
    SchedulerOptions options;
    options.kv = parse_kv_options("paged:block=8", "").value();
    options.kv_bytes = bytes;
    options.files = files_;
    options.store = store_;
    options.file_seconds = 60;
    scheduler_ = std::move(Scheduler::make(*engine_, options)).value();
  }
  // Runs a job. Its answer must be that of a session of its own.
  Heard answer(const std::vector<Token>& prompt, uint32_t most,
               std::optional<Handover> handover = {}) {
    Heard heard;
    Job job = job_of(prompt, most);
    job.handover = std::move(handover);
    listen(job, heard);
    scheduler_->add(JobId{++last_}, job);
    run_all(*scheduler_);
    files_->flush();
    EXPECT_FALSE(heard.outcome->error.has_value()) << heard.outcome->error->message;
    if (most > 0) {
      EXPECT_EQ(heard.tokens[0], alone(*engine_, job, 0, {}).tokens);
    }
    return heard;
  }
  // Returns a system message that all users share, a message of the user `seed`, and the beginning
  // of an answer.
  std::vector<Token> prompt_of(uint32_t system, uint32_t user, uint32_t seed) const {
    std::vector<Token> prompt = message(system, 1);
    append(prompt, message(user, seed));
    append(prompt, begin_);
    return prompt;
  }

  const fs::path folder_;
  std::shared_ptr<PrefixTier> files_;
  std::shared_ptr<ScriptedTier> store_;
  std::unique_ptr<Scheduler> scheduler_;
};
INSTANTIATE_TEST_SUITE_P(Families, PrefixStops, testing::ValuesIn(test::families_with_states()));

TEST_P(PrefixStops, AConversationGoesOnAfterARestart) {
  std::vector<Token> history = message(150, 1);
  size_t border = 0;
  for (uint32_t turn = 0; turn < 4; ++turn) {
    restart();
    append(history, message(90 + turn, 2 + turn));
    std::vector<Token> prompt = history;
    append(prompt, begin_);
    const Heard heard = answer(prompt, 24);
    EXPECT_EQ(heard.outcome->cached_tokens, border) << "turn " << turn;
    border = history.size();
    append_without_thoughts(history, heard.tokens.at(0));
  }
  EXPECT_EQ(scheduler_->metrics().files.torn, 0u);
}

TEST_P(PrefixStops, AnAnswerThatIsKeptAsItWasIsNotReadAgain) {
  restart();
  std::vector<Token> prompt = prompt_of(100, 60, 2);
  const Heard first = answer(prompt, 40);
  append(prompt, std::span(first.tokens.at(0)).first(39));  // the last one has no row
  const size_t end = prompt.size();
  append(prompt, message(50, 3));
  append(prompt, begin_);
  restart();
  EXPECT_EQ(answer(prompt, 5).outcome->cached_tokens, end);
}

TEST_P(PrefixStops, UsersOfASystemPromptGoOnFromItsEnd) {
  restart();
  answer(prompt_of(200, 40, 2), 4);
  restart();
  EXPECT_EQ(answer(prompt_of(200, 40, 3), 4).outcome->cached_tokens, 200u);
  const uint64_t hits = scheduler_->metrics().files.hits;
  EXPECT_GT(hits, 0u);
  EXPECT_EQ(answer(prompt_of(200, 40, 4), 4).outcome->cached_tokens, 200u);
  EXPECT_EQ(scheduler_->metrics().files.hits, hits) << "it was in memory";
}

// Damages each file once: the state, the blocks before it, and earlier states.
TEST_P(PrefixStops, ReadsNoMoreThanWhatIsDamaged) {
  restart();
  const std::vector<Token> prompt = prompt_of(200, 140, 2);
  answer(prompt, 6);
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder_)) paths.push_back(entry.path());
  ASSERT_GE(paths.size(), 3u);
  uint64_t torn = 0;
  for (const fs::path& path : paths) {
    std::string whole;
    {
      std::ifstream in(path, std::ios::binary);
      whole.assign(std::istreambuf_iterator<char>(in), {});
    }
    for (const bool cut : {false, true}) {
      std::string bytes = whole;
      if (cut)
        bytes.resize(whole.size() / 2);
      else
        bytes[whole.size() - 5] ^= 1;
      std::ofstream(path, std::ios::binary) << bytes;
      restart();
      const Heard heard = answer(prompt, 6);
      EXPECT_LE(heard.outcome->cached_tokens, 340u);
      torn += scheduler_->metrics().files.torn;
      std::ofstream(path, std::ios::binary) << whole;
    }
  }
  EXPECT_GT(torn, 0u);
  restart();
  EXPECT_EQ(answer(prompt, 6).outcome->cached_tokens, 340u);
  for (const fs::path& path : paths) fs::remove(path);
  restart();
  EXPECT_EQ(answer(prompt, 6).outcome->cached_tokens, 0u);
}

TEST_P(PrefixStops, AnswersTheSameInLittleMemory) {
  const uint64_t bytes =
      2 * engine_->cost(parse_kv_options("paged:block=8", "").value(), {.tokens = 400})->fast_bytes;
  uint64_t cached = 0;
  for (uint32_t round = 0; round < 2; ++round) {
    restart(bytes);
    for (uint32_t i = 0; i < 5; ++i)
      cached += answer(prompt_of(200, 150, 2 + i), 8).outcome->cached_tokens;
    EXPECT_LE(scheduler_->metrics().kv.allocated_bytes, bytes);
  }
  EXPECT_GE(cached, 4 * 200u + 5 * 350u);
}

TEST_P(PrefixStops, HandsAPromptOverToAnotherProcess) {
  for (const size_t length : {1u, 2u, 20u, 128u, 129u, 300u}) {
    SCOPED_TRACE(length);
    std::vector<Token> prompt = message(static_cast<uint32_t>(length), 5);
    store_ = std::make_shared<ScriptedTier>();
    restart();
    const Heard given =
        answer(prompt, 0, Handover{.side = Handover::Side::kGive, .arithmetic = {}});
    ASSERT_TRUE(given.outcome->given.has_value());
    fs::remove_all(folder_);
    restart();
    const Heard taken = answer(
        prompt, 6, Handover{.side = Handover::Side::kTake, .arithmetic = *given.outcome->given});
    // Fewer tokens than kLeastCutTokens are computed sooner than moved.
    EXPECT_EQ(taken.outcome->cached_tokens, length > kLeastCutTokens ? length - 1 : 0);
  }
}

TEST(PrefixStopsIn, AreWhatTheTokensSay) {
  const auto engine = engine_of(*tools::checked(*tools::made_family("lfm2")));
  std::vector<Token> tokens(300);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(10 + i % 50);
  const Token control = turn_token_of(*engine).value_or(1);
  ASSERT_TRUE(engine->tokenizer().is_control(control));
  tokens[150] = tokens[151] = tokens[5] = control;
  const BlockId root = prefix_root("a", "");
  const auto blocks = block_ids(root, tokens);
  const auto stops = stops_in(tokens, root, blocks, engine->tokenizer());
  std::vector<uint32_t> places;
  for (const PrefixStop& stop : stops) {
    places.push_back(stop.tokens);
    // The id depends on these tokens alone, and is not that of a block.
    const std::vector<Token> before(tokens.begin(), tokens.begin() + stop.tokens);
    const auto own = block_ids(root, before);
    EXPECT_EQ(stop.id, stop_behind(before, own.empty() ? root : own.back()).id);
    std::vector<Token> other = before;
    other.front() = 9;
    const auto others = block_ids(root, other);
    EXPECT_NE(stop.id, stop_behind(other, others.empty() ? root : others.back()).id);
    EXPECT_EQ(std::ranges::count(blocks, stop.id), 0);
  }
  EXPECT_EQ(places, (std::vector<uint32_t>{64, 128, 150, 151, 256, 300}));
  EXPECT_TRUE(stops_in(std::span(tokens).first(10), root, {}, engine->tokenizer()).empty());
}

}  // namespace
}  // namespace kvick::engine
