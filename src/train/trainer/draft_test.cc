// Tests the training of a draft model from another model's answers: the data, the loss, and that it
// learns.

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/speculation/model_drafter.h"
#include "train/files/export.h"
#include "train/from_model/ask.h"
#include "train/from_model/start.h"
#include "train/tasks/answer_task.h"
#include "train/tasks/words.h"
#include "train/trainer/test_training.h"

namespace kvick::train {
namespace {

using test::engine_logits, test::run_to, test::small_settings, test::small_text, test::test_path;
using Prompts = std::vector<std::vector<engine::Token>>;

class Draft : public testing::Test {
 protected:
  static constexpr size_t kPrompts = 24, kGiven = 9;

  static void SetUpTestSuite() {
    Settings settings = small_settings("llama");
    settings.run.steps = 60;
    const TokenData text = small_text();
    export_model(run_to(settings, text, {.folder = folder_}, 1000), path_, FileType::kF32, 0);
    engine_ = std::move(engine::Engine::open({.model_path = path_, .threads = 2})).value();
    for (size_t i = 0; i < kPrompts; ++i) {
      const auto first = text.train.begin() + static_cast<ptrdiff_t>(31 * i);
      prompts_.emplace_back(first, first + kGiven);
    }
  }
  static void TearDownTestSuite() {
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }

  inline static const std::string folder_ = test_path("teacher"), path_ = folder_ + "/model.gguf";
  inline static std::unique_ptr<engine::Engine> engine_;
  inline static Prompts prompts_;
};

TEST_F(Draft, AnswersComeWithTheModelsOwnDistribution) {
  const AnswerData data = ask(*engine_, prompts_, {.tokens = 7, .parallel = 3, .top = 4}).value();
  ASSERT_EQ(data.ends.size(), kPrompts);
  for (size_t sequence : {size_t{0}, size_t{13}}) {
    const size_t first = sequence == 0 ? 0 : data.ends[sequence - 1];
    const std::vector<kv::Token> tokens(
        data.tokens.begin() + static_cast<ptrdiff_t>(first),
        data.tokens.begin() + static_cast<ptrdiff_t>(data.ends[sequence]));
    ASSERT_LE(tokens.size(), kGiven + 7);
    ASSERT_GT(tokens.size(), kGiven);
    for (size_t i = 0; i < kGiven; ++i) EXPECT_EQ(tokens[i], prompts_[sequence][i]);
    for (size_t i = 0; i < data.top; ++i) EXPECT_EQ(data.chances[first * data.top + i], 0);
    const std::vector<float> logits = engine_logits(path_, tokens);
    for (size_t t = 1; t < tokens.size(); ++t) {
      const float* before = &logits[(t - 1) * 257];
      double sum = 0;
      for (size_t i = 0; i < 257; ++i) sum += std::exp(before[i]);
      const size_t at = (first + t) * data.top;
      for (size_t i = 0; i < data.top; ++i) {
        const double chance = std::exp(before[data.likeliest[at + i]]) / sum;
        EXPECT_NEAR(data.chances[at + i], chance, 1e-3);
        EXPECT_LE(data.chances[at + i], data.chances[i > 0 ? at + i - 1 : at]);
      }
      EXPECT_EQ(tokens[t], t < kGiven ? prompts_[sequence][t] : data.likeliest[at]);
    }
  }
}

TEST_F(Draft, DrawnAnswersAreAFunctionOfTheSeedAndOfNothingBesideThem) {
  const auto tokens = [&](uint64_t seed, uint32_t parallel) {
    AskOptions options = {.tokens = 12, .parallel = parallel, .top = 1};
    options.sampling.temperature = 2;
    options.sampling.seed = seed;
    return ask(*engine_, prompts_, options).value().tokens;
  };
  EXPECT_EQ(tokens(1, 1), tokens(1, 5));
  EXPECT_NE(tokens(1, 5), tokens(2, 5));
}

TEST_F(Draft, AskingSaysWhatIsWrong) {
  const auto error = [&](const Prompts& prompts, const AskOptions& options) {
    return ask(*engine_, prompts, options).error().message;
  };
  EXPECT_EQ(error({}, {}), "there are no prompts to answer");
  EXPECT_EQ(error(prompts_, {.top = 0}), "from 1 to 257 likely tokens can be kept, not 0");
  EXPECT_EQ(error({{5, 6}, {}}, {}),
            "prompt 2: the prompt is empty: there is nothing to go on from");
}

// Returns twelve positions with two likely tokens each, in a vocabulary of 40. The last three have
// no target.
OnDevice some_answers() {
  Batch batch{.rows = 3, .tokens = 4, .inputs = {}, .targets = {}, .top = 2};
  for (int i = 0; i < 12; ++i) {
    batch.inputs.push_back(i);
    batch.targets.push_back(i < 9 ? i + 1 : kNotAsked);
    batch.likeliest.insert(batch.likeliest.end(), {i + 1, 2 * i});
    const float chance = i < 9 ? 0.5F + 0.04F * static_cast<float>(i) : 0;
    batch.chances.insert(batch.chances.end(), {chance, chance / 4});
  }
  return to_device(batch, torch::kCPU);
}

TEST(DraftWords, AreThoseThatAreSaidMostByProbability) {
  AnswerData data = {.vocab = 9, .vocabulary = {}, .top = 2, .ends = {3}, .tokens = {1, 2, 3}};
  data.likeliest = {4, 5, 7, 2, 2, 7};
  data.chances = {0, 0, 0.5, 0.25, 0.375, 0.125};
  EXPECT_EQ(words_of(data), (std::vector<int32_t>{2, 7}));
  Vocabulary vocabulary = {.pairs = 3, .bytes = "abc"};
  add_words(vocabulary, data);
  EXPECT_EQ(vocabulary.pairs, 4U);
  EXPECT_TRUE(vocabulary.bytes.starts_with("abc"));
}

TEST(DraftLoss, IsTheCrossEntropyOfTheLikelyTokens) {
  at::manual_seed(3);
  const Tensor logits = torch::randn({3, 4, 40}) * 2;
  const OnDevice data = some_answers();
  double loss = 0;
  for (int64_t place = 0; place < 9; ++place) {
    const Tensor row = logits.flatten(0, 1)[place];
    double sum = 0;
    for (int64_t i = 0; i < 40; ++i) sum += std::exp(row[i].item<double>());
    // The probabilities 1 and 1/4, normalised.
    loss -= 0.8 * (row[place + 1].item<double>() - std::log(sum));
    loss -= 0.2 * (row[2 * place].item<double>() - std::log(sum));
  }
  EXPECT_NEAR(loss_of(logits, data).item<double>(), loss / 9, 1e-5);
}

TEST(DraftLoss, OfDrawnColumnsIsThatOfAllOnAverage) {
  at::manual_seed(3);
  const Tensor hidden = torch::randn({3, 4, 32}).requires_grad_(true);
  const Tensor output = torch::randn({40, 32}) * 0.3;
  const OnDevice data = some_answers();
  const Tensor exact = loss_of(torch::matmul(hidden, output.t()), data);
  exact.backward();
  const Tensor gradient = hidden.grad().clone();
  hidden.mutable_grad().zero_();
  // This many draws represent all other tokens equally.
  const Tensor drawn = sampled_loss(hidden, output, data, 400'000, 7);
  drawn.backward();
  EXPECT_NEAR(drawn.item<double>(), exact.item<double>(), 5e-3);
  EXPECT_LT((hidden.grad() - gradient).abs().max().item<double>(), 2e-3);
  double mean = 0;
  for (uint64_t seed = 0; seed < 400; ++seed)
    mean += sampled_loss(hidden, output, data, 12, seed).item<double>() / 400;
  EXPECT_NEAR(mean, exact.item<double>(), 0.1);
}

TEST_F(Draft, ALayerLearnsToSayWhatTheModelSays) {
  at::set_num_threads(1);
  AskOptions asked = {.tokens = 60, .parallel = 8, .top = 8};
  asked.sampling.temperature = 1;
  const AnswerData data = ask(*engine_, prompts_, asked).value();
  const std::vector<uint32_t> first = {0};
  const Checkpoint begin = start_of(io::ModelFile::open(path_).value(), first).value();
  Settings settings = {.model = begin.settings.model,
                       .run = {.task = "answers",
                               .train = "blocks",
                               .batch = 8,
                               .steps = 60,
                               .warmup = 4,
                               .lr = 5e-3,
                               .negatives = 64}};
  settings.model.ctx = 48;
  const RunOptions options = {
      .folder = test_path("draft"), .log_steps = 60, .held_out_steps = 60, .start = &begin};
  const RunCalls calls = {.seconds = [] { return 0.0; },
                          .report = [](const Standing&) {},
                          .stopped = [] { return false; }};
  const Parameters untrained(settings, torch::kCPU);
  Tensor values = untrained.values();
  values.copy_(torch::tensor(begin.values));
  const Measured before =
      measure(untrained, settings.model, *answers_of(data, settings), 1 << 16, {});
  const Checkpoint draft = run_training(settings, {.answers = &data}, torch::kCPU, options, calls);
  EXPECT_LT(draft.log.back().held_out, before.loss - 0.1);
  EXPECT_GE(draft.log.back().accuracy, before.accuracy);
  // The embedding and the last norm are not trained, so they keep the same bits.
  const auto embedding = static_cast<ptrdiff_t>(257 * 64);
  EXPECT_TRUE(
      std::equal(draft.values.begin(), draft.values.begin() + embedding, begin.values.begin()));
  EXPECT_TRUE(std::equal(draft.values.end() - 64, draft.values.end(), begin.values.end() - 64));
  EXPECT_EQ(draft.first.size(), draft.values.size() - 257 * 64 - 64);
  // The draft model's file names the tokens that it may draft, and the engine drafts no others.
  export_model(draft, options.folder + "/model.gguf", FileType::kQ8_0, 0);
  const auto loaded = engine::DraftWeights::load(
      *engine_,
      engine::parse_spec_options("draft:model=" + options.folder + "/model.gguf").value());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  std::vector<int32_t> words = words_of(data);
  EXPECT_LT(words.size(), 257U);
  std::sort(words.begin(), words.end());
  EXPECT_EQ((*loaded)->outputs, words);
  EXPECT_EQ((*loaded)->model->outputs(), words.size());
  // Training resumes from the checkpoint.
  RunOptions more = options;
  more.start = nullptr;
  more.resume = true;
  settings.run.steps = 61;
  settings.model.context = draft.settings.model.context;
  EXPECT_EQ(run_training(settings, {.answers = &data}, torch::kCPU, more, calls).step, 61u);
  std::filesystem::remove_all(options.folder);
}

}  // namespace
}  // namespace kvick::train
