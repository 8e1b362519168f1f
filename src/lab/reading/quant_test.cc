#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>

#include "base/text_file.h"
#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/core/test_text.h"

namespace kvick::lab {
namespace {

struct QuantBench : ModelBench {
  QuantBench() { bench.file = write_words(600); }
  ~QuantBench() { std::filesystem::remove(bench.file); }
};

TEST(Quant, SaysWhatIsMeasuredWhereModelAndTextHaveLess) {
  QuantBench t;
  const engine::Engine& engine = *t.bench.model(engine::Attention::kFused).value();
  const size_t tokens =
      engine.tokenizer().encode(base::read_text(t.bench.file).value(), true, false).size();
  ASSERT_GE(tokens, 64U);
  ASSERT_LT(tokens, 8U * 2048);  // of which windows are read by default
  const auto experiment = find_experiment("quant")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell&) -> Json {
    return {{"decode_tok_s", 2.0}};
  });
  ASSERT_FALSE(all.empty());
  const Json& what = all[0].cell.what;  // by default a depth of 8192 and windows of 2048
  EXPECT_EQ(what["tokens"], tokens);
  EXPECT_EQ(what["window"], std::min<size_t>(512, tokens));
  EXPECT_EQ(what["depth"], 512 - 32);
  const Findings found = experiment->findings(all);
  EXPECT_NE(found.tables[0].title.find("decode at depth 480"), std::string::npos)
      << found.tables[0].title;
}

TEST(Quant, MeasuresTheSizesThatItsCellsName) {
  QuantBench t;
  t.bench.tokens = 128;
  t.bench.text_tokens = 64;
  const auto experiment = find_experiment("quant")->make(t.bench);
  const auto cells = experiment->cells();
  ASSERT_TRUE(cells.ok()) << cells.error().message;
  EXPECT_EQ((*cells)[0].what["window"], 32);
  EXPECT_EQ((*cells)[0].what["tokens"], 64);
  EXPECT_EQ((*cells)[0].what["depth"], 128);
  const auto run = experiment->measure((*cells)[0]);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_GT((*run)["perplexity"].get<double>(), 1);
  EXPECT_GT((*run)["decode_tok_s"].get<double>(), 0);
}

TEST(Quant, SaysWhatIsWrong) {
  const auto error_of = [](const Bench& bench) {
    const auto cells = find_experiment("quant")->make(bench)->cells();
    return cells.ok() ? std::string() : cells.error().message;
  };
  ModelBench none;
  EXPECT_EQ(error_of(none.bench), "quant needs a text: --file TEXT");
  QuantBench t;
  t.bench.tokens = 1024;
  EXPECT_EQ(error_of(t.bench), "a context of 1024 tokens was asked for, but the model has 512");
  t.bench.model_path.clear();
  EXPECT_EQ(error_of(t.bench), "quant needs a model: -m MODEL");
}

}  // namespace
}  // namespace kvick::lab
