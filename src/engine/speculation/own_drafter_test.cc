// Draft tokens by a model's own draft layer: they change no answer, and are accepted if the layer
// predicts well.

#include "engine/speculation/own_drafter.h"

#include <gtest/gtest.h>

#include "make_model/families.h"

#include "engine/core/test_engine.h"
#include "engine/sampling/sampler.h"
#include "engine/serving/scheduler.h"
#include "engine/session/session.h"
#include "engine/sharing/failure_text.h"
#include "engine/speculation/test_draft_model.h"

namespace kvick::engine {
namespace {

using test::DraftModelFile;

std::unique_ptr<Engine> drafting_engine(const char* family) {
  tools::Spec spec = *tools::made_family(family);
  spec.context = 128;
  if (spec.layers > 8) spec.layers = 3;
  spec.features.draft_layers = 1;
  return engine_of(spec);
}

// A model of one layer, with a copy of it as draft layer, which predicts almost like the model.
std::unique_ptr<Engine> agreeing_engine() {
  tools::Spec spec = *tools::made_family("glm4moe");
  spec.context = 128;
  spec.layers = 1;
  spec.features.dense_layers = 0;
  spec.features.draft_layers = 1;
  spec.features.draft_copies = true;
  return engine_of(spec);
}

std::vector<Token> prompt_of(uint32_t tokens, Token first) {
  std::vector<Token> prompt;
  for (uint32_t i = 0; i < tokens; ++i) prompt.push_back(first + static_cast<Token>(7 * i % 100));
  return prompt;
}

Request ask_for(std::vector<Token> prompt, uint32_t most, float temperature = 0) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = most;
  request.sampling.temperature = temperature;
  request.sampling.top_k = 4;
  request.sampling.seed = 11;
  request.ignore_end = true;
  return request;
}

// Two turns of a chat.
std::vector<Answer> turns(Engine& engine, const char* kv, const char* spec, float temperature) {
  const auto store = std::move(engine.make_store(parse_kv_options(kv, "").value())).value();
  Session session(engine, *store);
  const auto ready = session.speculate(parse_spec_options(spec).value());
  EXPECT_TRUE(ready.ok()) << (ready.ok() ? "" : ready.error().message);
  std::vector<Answer> answers;
  std::vector<Token> prompt = prompt_of(19, 5);
  for (int turn = 0; turn < 2; ++turn) {
    answers.push_back(std::move(session.generate(ask_for(prompt, 20, temperature))).value());
    prompt.insert(prompt.end(), answers.back().tokens.begin(), answers.back().tokens.end());
    prompt.insert(prompt.end(), {9, 8, 7});
  }
  return answers;
}

TEST(OwnDrafter, ChangesNoAnswerOfAnyFamily) {
  for (const char* family : {"glm4moe", "deepseek3", "qwen3next", "qwen35", "qwen35moe"}) {
    const auto engine = drafting_engine(family);
    for (const char* kv : {"virtual", "paged"}) {
      const std::vector<Answer> plain = turns(*engine, kv, "none", 0.7F);
      for (const char* spec : {"mtp:gain=off,grow=on", "mtp:gain=off,most=2,depth=2", "mtp"}) {
        const std::vector<Answer> drafted = turns(*engine, kv, spec, 0.7F);
        for (size_t i = 0; i < plain.size(); ++i) {
          EXPECT_EQ(plain[i].tokens, drafted[i].tokens) << family << ' ' << kv << ' ' << spec;
          if (std::string(spec) == "mtp") continue;
          EXPECT_GT(drafted[i].drafted, 0u) << family;
        }
      }
    }
  }
}

TEST(OwnDrafter, IsRightWhereTheLayerSaysWhatTheModelDoes) {
  const auto engine = agreeing_engine();
  const std::vector<Answer> plain = turns(*engine, "paged", "none", 0);
  const std::vector<Answer> drafted = turns(*engine, "paged", "mtp:gain=off,most=2,depth=2", 0);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].tokens, drafted[i].tokens);
    EXPECT_GT(drafted[i].accepted, drafted[i].drafted * 6 / 10) << "of " << drafted[i].drafted;
  }
}

// Steps mix prompts and draft tokens; two requests have the same prompt.
TEST(OwnDrafter, ServesManyRequestsAtOnce) {
  const auto engine = agreeing_engine();
  const auto serve = [&](const char* spec) {
    SchedulerOptions options;
    options.spec = parse_spec_options(spec).value();
    auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    std::vector<std::vector<Token>> answers(6);
    for (uint32_t i = 0; i < 3; ++i) {
      Job job = {.prompt = prompt_of(15 + 4 * i, static_cast<Token>(5 + i)), .max_tokens = 16};
      job.sampling.temperature = 0.5F;
      job.choices = 2;
      job.ignore_end = true;
      job.on_piece = [&answers, i](AnswerPiece&& piece) {
        if (piece.token) answers[2 * i + piece.choice].push_back(*piece.token);
      };
      scheduler->add(JobId{i + 1}, std::move(job));
    }
    while (scheduler->step()) {
    }
    return std::pair(answers, scheduler->metrics());
  };
  const auto [plain, without] = serve("none");
  const auto [answers, counts] = serve("mtp:gain=off,most=2,depth=2");
  EXPECT_EQ(plain, answers);
  EXPECT_EQ(without.drafted, 0u);
  EXPECT_GT(counts.accepted, counts.drafted / 2) << "of " << counts.drafted;
}

// Cached rows of a draft model are evicted for a job, so their memory counts as free.
TEST(OwnDrafter, KeepsNoJobWaitingForTheRoomOfRowsThatNoneUses) {
  const auto engine = agreeing_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4,prefix=off", "f16").value();
  options.headroom_tokens = 2;
  options.spec = parse_spec_options("mtp:gain=off").value();
  const auto job = [](uint32_t prompt, Token first, const char* spec) {
    Job one = {.prompt = prompt_of(prompt, first), .max_tokens = 8};
    one.sampling.temperature = 0;
    one.ignore_end = true;
    one.spec = parse_spec_options(spec).value();
    return one;
  };
  // Leaves cached rows in the draft model's store only. Returns their bytes.
  const auto leave_rows = [&](Scheduler& scheduler) {
    scheduler.add(JobId{1}, job(90, 5, "mtp:gain=off"));
    while (scheduler.step()) {
    }
    EXPECT_EQ(scheduler.metrics().kv.allocated_bytes, 0u);
    return scheduler.metrics().draft_bytes;
  };
  const uint64_t token = engine->make_store(options.kv).value()->shape().token_bytes();
  const uint64_t drafts = leave_rows(*std::move(Scheduler::make(*engine, options)).value());
  ASSERT_GE(drafts, 80 * token);
  // Two prompts of 100 tokens fit only if the draft model's rows are evicted.
  options.kv_bytes = drafts + 150 * token;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  ASSERT_EQ(leave_rows(*scheduler), drafts);
  scheduler->add(JobId{2}, job(100, 6, "none"));
  scheduler->step();
  scheduler->add(JobId{3}, job(100, 7, "none"));
  scheduler->step();
  EXPECT_EQ(scheduler->waiting_jobs(), 0u);
  while (scheduler->step()) {
  }
  EXPECT_EQ(scheduler->metrics().finished, 3u);
  EXPECT_EQ(scheduler->metrics().recomputations, 0u);
  EXPECT_GT(leave_rows(*scheduler), 0u);
  scheduler->flush();
  EXPECT_EQ(scheduler->metrics().draft_bytes, 0u);
}

TEST(SmallModelDrafter, TakesMemoryToReadAPromptOnceForAllSequences) {
  const auto engine = tiny_engine();
  const DraftModelFile draft;
  const SpecOptions options = parse_spec_options("draft:model=" + draft.path()).value();
  const auto small =
      std::move(DraftModel::make(*engine, DraftWeights::load(*engine, options).value(), nullptr))
          .value();
  const Acceptance acceptance;
  const Sampler sampler({.temperature = 0}, engine->kernels());
  const auto drafted = [&](SmallModelDrafter& by, const std::vector<Token>& text) {
    DraftTree tree;
    by.draft({.text = text, .most = 4, .depth = 4, .sampler = &sampler}, tree);
    return tree.nodes.at(0).token;
  };
  const auto alone = [&](const std::vector<Token>& text) {
    SmallModelDrafter one(*small, *engine, acceptance, false);
    return drafted(one, text);
  };
  SmallModelDrafter first(*small, *engine, acceptance, false),
      second(*small, *engine, acceptance, false);
  EXPECT_EQ(small->executor.use_count(), 3);
  std::vector<Token> text = prompt_of(20, 5);
  EXPECT_EQ(drafted(first, text), alone(text));
  EXPECT_EQ(drafted(second, prompt_of(30, 9)), alone(prompt_of(30, 9)));
  text.push_back(7);
  EXPECT_EQ(drafted(first, text), alone(text));
}

// A draft model with room for texts that it reads in several pieces.
struct LongTexts {
  LongTexts() {
    const DraftModelFile draft(2048);
    const SpecOptions options = parse_spec_options("draft:model=" + draft.path()).value();
    small =
        std::move(DraftModel::make(*engine, DraftWeights::load(*engine, options).value(), nullptr))
            .value();
  }
  SmallModelDrafter drafter(bool shares) const { return {*small, *engine, acceptance, shares}; }
  // Returns the first draft token; -1: there is none.
  Token drafted(SmallModelDrafter& by, std::span<const Token> of) const {
    const Sampler sampler({.temperature = 0}, engine->kernels());
    DraftTree tree;
    by.draft({.text = of, .most = 4, .depth = 4, .sampler = &sampler}, tree);
    return tree.nodes.empty() ? -1 : tree.nodes[0].token;
  }

  std::unique_ptr<Engine> engine = tiny_engine();
  std::unique_ptr<DraftModel> small;
  Acceptance acceptance;
  std::vector<Token> text = prompt_of(2 * SmallModelDrafter::kMostRead + 40, 5);
};

TEST(SmallModelDrafter, ReadsALongTextInPiecesAndDraftsNothingBeforeItsEnd) {
  LongTexts f;
  SmallModelDrafter by = f.drafter(false);
  const uint64_t piece = SmallModelDrafter::kMostRead * f.small->store->shape().token_bytes();
  for (const uint64_t pieces : {1, 2}) {
    EXPECT_EQ(f.drafted(by, f.text), -1);
    EXPECT_TRUE(by.is_behind());
    EXPECT_EQ(f.small->store->usage().used_bytes, pieces * piece);
    f.text.push_back(7);
  }
  const Token drafted = f.drafted(by, f.text);
  EXPECT_FALSE(by.is_behind());
  // Another one reads other pieces of the same text.
  SmallModelDrafter other = f.drafter(false);
  const std::span<const Token> text = f.text;
  EXPECT_NE(f.drafted(other, text.first(300)), -1);
  EXPECT_NE(f.drafted(other, text.first(700)), -1);
  EXPECT_EQ(f.drafted(other, text), drafted);
}

TEST(SmallModelDrafter, ReadsALongTextTogetherWithTheOtherAnswersToIt) {
  LongTexts f;
  SmallModelDrafter first = f.drafter(true), second = f.drafter(true);
  EXPECT_EQ(f.drafted(first, f.text), -1);
  EXPECT_EQ(f.drafted(second, f.text), -1);
  // Both pieces are there now, one read by each.
  const Token drafted = f.drafted(first, f.text);
  EXPECT_NE(drafted, -1);
  EXPECT_EQ(f.drafted(second, f.text), drafted);
}

TEST(SmallModelDrafter, SharesTheTokensOfAStepWithOthersAndReadsAShortRestInAnyCase) {
  LongTexts f;
  SmallModelDrafter first = f.drafter(false), second = f.drafter(false), third = f.drafter(false);
  SmallModelDrafter brief = f.drafter(false), whole = f.drafter(false);
  const uint64_t token = f.small->store->shape().token_bytes();
  const std::span<const Token> text = f.text;
  const auto rows = [&] { return f.small->store->usage().used_bytes / token; };
  f.small->may_read = 700;
  for (SmallModelDrafter* const by : {&first, &second, &third})
    EXPECT_TRUE(f.drafted(*by, text) == -1 && by->is_behind());
  EXPECT_EQ(rows(), 700U);  // 512 of the first one, 188 of the second
  EXPECT_NE(f.drafted(brief, text.first(SmallModelDrafter::kFewUnread)), -1);
  EXPECT_EQ(rows(), 700U + SmallModelDrafter::kFewUnread);
  EXPECT_EQ(f.drafted(whole, text.first(SmallModelDrafter::kFewUnread + 1)), -1);
  EXPECT_EQ(rows(), 700U + SmallModelDrafter::kFewUnread);
  // In later steps, all read on from where they were and draft alike.
  std::vector<Token> drafted;
  for (SmallModelDrafter* const by : {&first, &second, &third})
    while (by->is_behind()) {
      f.small->may_read = 300;
      drafted.push_back(f.drafted(*by, text));
    }
  const Token last = drafted.back();  // of two steps, three, and four
  EXPECT_EQ(drafted, (std::vector<Token>{-1, last, -1, -1, last, -1, -1, -1, last}));
  EXPECT_NE(last, -1);
}

double stopped_clock() { return 0; }

TEST(Speculator, GoesOnWithATrialThatReadsALongTextAndDoesNotCountItsTime) {
  // Drafts each third time, after it has read the text.
  struct Reader final : Drafter {
    explicit Reader(uint32_t& calls) : calls_(calls) {}
    bool is_behind() const override { return calls_ % 3 != 0; }
    void draft(const DraftAsk&, DraftTree& tree) override {
      if (++calls_ % 3 == 0) tree.add(-1, 1, kModelKinds);
    }
    std::vector<double> rates() const override { return {0.9}; }
    uint32_t& calls_;
  };
  const auto engine = tiny_engine();
  Speculation speculation(*engine, stopped_clock);
  const PlainStep plain = plain_step(1, 0);
  speculation.cost.observe(plain.shape, 1.0);
  speculation.level_cost.observe(1, 1000);  // drafting does not pay
  const auto speculator = speculation.begin(parse_spec_options("lookup").value());
  uint32_t calls = 0;
  speculator->add(std::make_unique<Reader>(calls));
  std::vector<Token> text = {3};
  std::vector<size_t> steps;
  for (size_t i = 0; i < 100; ++i) {
    // Each token occurs once: there is nothing to look up.
    text.push_back(static_cast<Token>(4 + i));
    const uint32_t before = calls;
    speculator->propose({.text = text, .most = 6, .depth = 6}, plain);
    if (calls != before) steps.push_back(i);
  }
  // Trials come after 32 steps, then after 64 more.
  EXPECT_EQ(steps, (std::vector<size_t>{31, 32, 33, 97, 98, 99}));
  EXPECT_EQ(speculation.level_cost.seconds(), 1000);
}

TEST(SmallModelDrafter, ReadsAPromptOnceForTheAnswersThatMayShareIt) {
  const auto engine = tiny_engine();
  const DraftModelFile draft;
  Speculation speculation(*engine);
  const SpecOptions options =
      parse_spec_options("draft:most=4,depth=4,gain=off,model=" + draft.path()).value();
  ASSERT_TRUE(speculation.prepare(options).ok());
  const Sampler sampler({.temperature = 0}, engine->kernels());
  const std::vector<Token> text = prompt_of(70, 5);  // two blocks and a part of a third
  const DraftAsk ask = {.text = text, .most = 4, .depth = 4, .sampler = &sampler};
  std::vector<std::unique_ptr<Speculator>> speculators;
  std::vector<Token> drafted;
  // Returns the bytes that the rows of one more answer take.
  const auto taken = [&](bool shares) {
    const uint64_t before = speculation.draft_usage().allocated_bytes;
    speculators.push_back(speculation.begin(options, shares));
    std::vector<Token> tokens;
    for (const auto& node : speculators.back()->propose(ask, plain_step(1, 0)).tree.nodes)
      tokens.push_back(node.token);
    EXPECT_FALSE(tokens.empty());
    if (drafted.empty()) drafted = tokens;
    EXPECT_EQ(tokens, drafted);
    return speculation.draft_usage().allocated_bytes - before;
  };
  const uint64_t one = taken(true);
  EXPECT_GT(one, 0u);
  EXPECT_LT(taken(true), one / 2);
  EXPECT_EQ(taken(false), one) << "another's rows, of a salt that may not see them";
  speculators.clear();
  const kv::Usage left = speculation.draft_usage();
  EXPECT_EQ(left.used_bytes, 0u);
  EXPECT_GT(left.cached_bytes, 0u);
  EXPECT_EQ(speculation.shrink(UINT64_MAX), left.allocated_bytes);
  EXPECT_EQ(speculation.draft_usage().allocated_bytes, 0u);
}

TEST(SmallModelDrafter, IsNotTrustedWhereADrafterThrowsAndTheAnswerGoesOn) {
  struct Throws final : Drafter {
    void see(const SeenRows&) override { throw std::runtime_error("a bug"); }
    void draft(const DraftAsk&, DraftTree&) override {}
  };
  const auto engine = tiny_engine();
  const DraftModelFile draft;
  Speculation speculation(*engine);
  const SpecOptions options = parse_spec_options("draft:gain=off,model=" + draft.path()).value();
  ASSERT_TRUE(speculation.prepare(options).ok());
  const auto speculator = speculation.begin(options);
  const Sampler sampler({.temperature = 0}, engine->kernels());
  const std::vector<Token> text = prompt_of(20, 5);
  const DraftAsk ask = {.text = text, .most = 4, .depth = 4, .sampler = &sampler};
  EXPECT_GT(speculator->propose(ask, plain_step(1, 0)).size(), 0u);
  ASSERT_GT(speculation.draft_usage().allocated_bytes, 0u);
  speculator->add(std::make_unique<Throws>());
  const std::exception_ptr failed = speculator->see({.text = text});
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failure_text(failed), "a bug");
  EXPECT_EQ(speculator->see({.text = text}), nullptr) << "it is reported again";
  EXPECT_EQ(speculation.draft_usage().allocated_bytes, 0u);
  EXPECT_EQ(speculator->propose(ask, plain_step(1, 0)).size(), 0u);
}

TEST(OwnDrafter, IsRefusedWhereTheFileHasNoSuchLayer) {
  const auto engine = tiny_engine();
  const auto store = std::move(engine->make_store({})).value();
  Session session(*engine, *store);
  const auto refused = session.speculate(parse_spec_options("mtp").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no layer that predicts further tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
