#include "engine/eval/measure_ranges.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/core/test_engine.h"
#include "engine/eval/perplexity.h"

namespace kvick::engine {
namespace {

std::vector<Token> text_of(size_t n) {
  std::vector<Token> text;
  for (size_t i = 0; i < n; ++i) text.push_back(static_cast<Token>((i * i * 7 + i * 3) % 500));
  return text;
}

// The definition: the largest magnitudes that one forward writes, read through another strategy's
// store.
kv::StaticRanges naive(Engine& engine, std::span<const Token> text) {
  KvOptions kv = parse_kv_options("iterative", "f32").value();
  auto store = engine.make_store(kv).value();
  const model::Slot slot = {.seq = store->open({}).seq, .past = 0, .tokens = text, .parents = {}};
  model::Executor executor = engine.make_executor();
  auto step = executor.run(*store, {.slots = {&slot, 1}}, {}).value();
  kv::StaticRanges most;
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < store->shape().layers; ++layer)
    for (uint32_t head = 0; head < store->shape().kv_heads; ++head) {
      step.rows().view({.slot = 0, .layer = layer, .head = head}, scratch, view);
      const auto* k = reinterpret_cast<const float*>(view.fresh.k);
      const auto* v = reinterpret_cast<const float*>(view.fresh.v);
      const size_t n = text.size() * store->shape().head_dim;
      const auto less = [](float a, float b) { return std::abs(a) < std::abs(b); };
      most.k.push_back(std::abs(*std::max_element(k, k + n, less)));
      most.v.push_back(std::abs(*std::max_element(v, v + n, less)));
    }
  return most;
}

// A file of the test, removed when the test ends.
struct File {
  explicit File(const std::string& name) : path(model::test_path(name)) {}
  ~File() { std::filesystem::remove(path); }
  std::string path;
};

TEST(Ranges, AreTheLargestMagnitudesOfEveryHeadAndTheMargin) {
  const auto engine = tiny_engine(128);
  const auto text = text_of(100);
  const Ranges ranges = measure_ranges(*engine, text, {.margin = 0}).value();
  EXPECT_EQ(ranges.heads, naive(*engine, text));
  EXPECT_EQ(ranges.tokens, 100u);
  EXPECT_EQ(ranges.model, engine->identity());
  const Ranges wider = measure_ranges(*engine, text, {.margin = 0.5}).value();
  for (size_t i = 0; i < ranges.heads.k.size(); ++i) {
    EXPECT_EQ(wider.heads.k[i], ranges.heads.k[i] * 1.5F);
    EXPECT_EQ(wider.heads.v[i], ranges.heads.v[i] * 1.5F);
  }
}

TEST(Ranges, TakeAllWindowsOfATextAndNoMoreTokensThanAsked) {
  const auto engine = tiny_engine(128);
  const auto text = text_of(100);
  std::vector<uint64_t> done;
  RangesOptions options = {.window = 30, .most = 70, .margin = 0, .progress = {}};
  options.progress = [&](uint64_t tokens, uint64_t) { done.push_back(tokens); };
  const Ranges ranges = measure_ranges(*engine, text, options).value();
  EXPECT_EQ(done, (std::vector<uint64_t>{30, 60, 70}));
  kv::StaticRanges most = naive(*engine, std::span(text).first(30));
  for (const auto& [begin, n] : {std::pair{30, 30}, {60, 10}}) {
    const kv::StaticRanges part = naive(*engine, std::span(text).subspan(begin, n));
    for (size_t i = 0; i < part.k.size(); ++i) {
      most.k[i] = std::max(most.k[i], part.k[i]);
      most.v[i] = std::max(most.v[i], part.v[i]);
    }
  }
  EXPECT_EQ(ranges.heads, most);
}

TEST(Ranges, RefuseWhatCannotBeMeasured) {
  const auto engine = tiny_engine(128);
  EXPECT_NE(measure_ranges(*engine, {}, {}).error().message.find("no tokens"), std::string::npos);
  for (const double margin : {-0.1, 11.0, std::nan("")})
    EXPECT_NE(
        measure_ranges(*engine, text_of(3), {.margin = margin}).error().message.find("margin"),
        std::string::npos);
  EXPECT_FALSE(measure_ranges(*engine, text_of(3), {.window = 0}).ok());
}

TEST(Ranges, SurviveTheWayThroughTheirFile) {
  const auto engine = tiny_engine(128);
  const File file("ranges.kvr");
  const Ranges ranges = measure_ranges(*engine, text_of(100), {}).value();
  const Ranges parsed = parse_ranges(ranges_text(ranges)).value();
  EXPECT_EQ(parsed.heads, ranges.heads);
  EXPECT_EQ(parsed.model, ranges.model);
  EXPECT_EQ(parsed.tokens, ranges.tokens);
  EXPECT_EQ(parsed.margin, ranges.margin);
  ASSERT_TRUE(write_ranges(file.path, ranges).ok());
  EXPECT_EQ(*read_ranges(file.path, engine->identity()).value(), ranges.heads);
  EXPECT_NE(write_ranges("/nowhere/ranges.kvr", ranges).error().message.find("cannot write"),
            std::string::npos);
}

TEST(Ranges, OfAnotherModelAreRefused) {
  const auto engine = tiny_engine(128), other = tiny_engine(128, kernels::DType::kQ8_0);
  EXPECT_NE(engine->identity().weights, other->identity().weights);
  EXPECT_EQ(engine->identity(), tiny_engine(128)->identity());
  const File file("other.kvr");
  ASSERT_TRUE(write_ranges(file.path, measure_ranges(*other, text_of(9), {}).value()).ok());
  EXPECT_EQ(
      read_ranges(file.path, engine->identity()).error().message,
      file.path + " is for other weights than this model's: make its own with kvick train ranges");
  ModelIdentity deeper = other->identity();
  deeper.layers = 3;
  EXPECT_EQ(read_ranges(file.path, deeper).error().message,
            file.path +
                " is for another model: 2 layers of 2 KV heads of 16 values, architecture llama; "
                "this one has 3 layers of 2 KV heads of 16 values, architecture llama: make its "
                "own with kvick train ranges");
  const KvOptions kv = parse_kv_options("", "static8:" + file.path).value();
  EXPECT_TRUE(other->make_store(kv).ok());
  EXPECT_NE(engine->make_store(kv).error().message.find("other weights"), std::string::npos);
  EXPECT_NE(read_ranges("/nowhere.kvr", deeper).error().message.find("/nowhere.kvr"),
            std::string::npos);
}

TEST(Ranges, DamagedFilesAreRefusedWithWhatIsWrong) {
  Ranges good;
  good.model = {.arch = "llama", .layers = 1, .kv_heads = 2, .head_dim = 8, .weights = "x"};
  good.heads = {.k = {1, 2}, .v = {3, 4}};
  const auto object = nlohmann::ordered_json::parse(ranges_text(good));
  const auto refusal = [&](const char* pointer, const nlohmann::ordered_json& value) {
    nlohmann::ordered_json changed = object;
    changed[nlohmann::ordered_json::json_pointer(pointer)] = value;
    const auto parsed = parse_ranges(changed.dump());
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_EQ(refusal("/tokens", 5), "");
  EXPECT_EQ(refusal("/kvick_ranges", 2), "it is of version 2, not 1");
  EXPECT_EQ(refusal("/model", 3), "model is missing or no object");
  EXPECT_EQ(refusal("/model/layers", -1), "layers is missing or no whole number");
  EXPECT_EQ(refusal("/model/layers", 1ULL << 40), "layers is 1099511627776, which is too many");
  EXPECT_EQ(refusal("/model/kv_heads", 3), "k is no list of 3 numbers");
  EXPECT_EQ(refusal("/model/arch", 3), "arch is missing or no text");
  EXPECT_EQ(refusal("/margin", "x"), "margin is missing or no number");
  EXPECT_EQ(refusal("/v", {3}), "v is no list of 2 numbers");
  for (const auto& bad : std::vector<nlohmann::ordered_json>{-1, "1", nullptr, 1e300})
    EXPECT_EQ(refusal("/k/1", bad), "k holds " + bad.dump() + ", which is no range");
  EXPECT_EQ(refusal("/k/1", 2.5), "its checksum is wrong: it is damaged");
  const std::string text = ranges_text(good);
  for (size_t n = 0; n + 2 < text.size(); ++n) EXPECT_FALSE(parse_ranges(text.substr(0, n)).ok());
  EXPECT_FALSE(parse_ranges("[1]").ok());
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_FALSE(parse_ranges("{\"kvick_ranges\": 1, \"other\": " + deep + ", \"k\": []}").ok());
}

TEST(Ranges, ATypeNamesItsFile) {
  const KvOptions both = parse_kv_options("", "static16:/a=b:c.kvr").value();
  EXPECT_EQ(both.k_type, kernels::DType::kStatic16);
  EXPECT_EQ(both.v_type, kernels::DType::kStatic16);
  EXPECT_EQ(both.ranges_path, "/a=b:c.kvr");
  const KvOptions mixed = parse_kv_options("", "k=static8:r.kvr,v=f16").value();
  EXPECT_EQ(mixed.ranges_path, "r.kvr");
  EXPECT_EQ(kv_type_text(mixed), "k=static8,v=f16");
  EXPECT_TRUE(parse_kv_options("", "k=static8:r.kvr,v=static16:r.kvr").ok());
  const auto refusal = [](const char* type) { return parse_kv_options("", type).error().message; };
  EXPECT_EQ(
      refusal("static8"),
      "static8 needs the file of its ranges: static8:FILE.kvr, which kvick train ranges makes");
  EXPECT_NE(refusal("static8:").find("needs the file"), std::string::npos);
  EXPECT_EQ(refusal("f16:r.kvr"), "the type f16 has no options, but \"r.kvr\" is given");
  EXPECT_NE(refusal("k=static8:a,v=static8:b").find("a and b are given"), std::string::npos);
}

// 16 bits lose next to nothing and 8 bits little, equally in every strategy.
TEST(Ranges, StaticRowsPredictNearlyAsFloatsDo) {
  const auto engine = tiny_engine(256);
  const File file("static.kvr");
  const auto text = text_of(200);
  ASSERT_TRUE(write_ranges(file.path, measure_ranges(*engine, text, {}).value()).ok());
  const auto read = [&](const std::string& spec, const std::string& type) {
    PerplexityOptions options;
    options.window = 100;
    options.kv = parse_kv_options(spec, type).value();
    options.against = parse_kv_options("", "f32").value();
    return perplexity(*engine, text, options).value();
  };
  const double words = read("", "static16:" + file.path).kl_mean;
  const double bytes = read("", "static8:" + file.path).kl_mean;
  EXPECT_LT(words, 1e-5);
  EXPECT_GT(bytes, words);
  EXPECT_LT(bytes, 0.05);
  for (const kv::Strategy& strategy : kv::strategies())
    if (strategy.traits.exact && !strategy.traits.tiered) {
      EXPECT_EQ(read(std::string(strategy.name), "static8:" + file.path).kl_mean, bytes);
    }
}

}  // namespace
}  // namespace kvick::engine
