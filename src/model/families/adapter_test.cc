// A token computed with an adapter has the logits of a model into which the adapter is merged,
// whatever else is in the batch.

#include <cmath>
#include <gtest/gtest.h>

#include "model/adapters/test_adapter.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

// Returns all logits of a text that is read in one step.
std::vector<float> logits_of(Runner& runner, std::span<const Token> tokens,
                             const Adapter* adapter = nullptr, float scale = 1) {
  const kv::SeqId seq = runner.store->open({}).seq;
  const Slot slot = {
      .seq = seq, .tokens = tokens, .parents = {}, .adapter = adapter, .adapter_scale = scale};
  std::vector<float> logits = runner.step({&slot, 1});
  runner.store->close(seq);
  return logits;
}

double largest(std::span<const float> x) {
  double most = 0;
  for (const float e : x) most = std::max(most, std::abs(static_cast<double>(e)));
  return most;
}

double largest_difference(std::span<const float> x, std::span<const float> y) {
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  return most;
}

// Returns the sum of inputs and outputs of one layer's adapted matrices.
uint64_t sum_of_sizes(const tools::Spec& spec) {
  uint64_t sum = 0;
  for (const std::string& matrix : MadeAdapter().matrices) {
    const auto [outputs, inputs] = sizes_of(spec, matrix);
    sum += outputs + inputs;
  }
  return sum;
}

class Adapters : public testing::TestWithParam<Arch> {
 protected:
  std::string made(const MadeAdapter& adapter, const std::string& name = "one") const {
    return write_adapter(name, tiny_spec(GetParam()), adapter);
  }
};
INSTANTIATE_TEST_SUITE_P(Model, Adapters, testing::Values(Arch::kLlama, Arch::kQwen2, Arch::kQwen3),
                         [](const auto& instance) {
                           return std::string(tools::arch_name(instance.param));
                         });

TEST_P(Adapters, GiveTheLogitsOfWeightsIntoWhichTheyAreMerged) {
  Runner runner(GetParam());
  const std::vector<Token> tokens = tokens_of(30, 1, runner.model->config().vocab);
  const std::vector<float> plain = logits_of(runner, tokens);
  for (const float scale : {1.0F, 0.5F, -1.0F}) {
    const std::string path = made({});
    const Adapter adapter = read_adapter(path, *runner.model);
    const std::vector<float> adapted = logits_of(runner, tokens, &adapter, scale);
    const auto own = runner.exchange(
        load_model(merge_adapter(runner.path, path, scale), runner.pool, runner.kernels));
    const std::vector<float> merged = logits_of(runner, tokens);
    EXPECT_GT(largest_difference(plain, adapted), 0.01 * largest(plain)) << scale;
    EXPECT_LT(largest_difference(merged, adapted), 2e-3 * largest(merged)) << scale;
    runner.exchange(load_model(runner.path, runner.pool, runner.kernels));
  }
}

TEST_P(Adapters, OfOneMatrixAreThatMatrixMerged) {
  Runner runner(GetParam());
  const std::vector<Token> tokens = tokens_of(9, 2, runner.model->config().vocab);
  for (const std::string& matrix : MadeAdapter().matrices) {
    const std::string path = made({.matrices = {matrix}, .rank = 1});
    const Adapter adapter = read_adapter(path, *runner.model);
    const std::vector<float> adapted = logits_of(runner, tokens, &adapter);
    runner.exchange(load_model(merge_adapter(runner.path, path, 1), runner.pool, runner.kernels));
    const std::vector<float> merged = logits_of(runner, tokens);
    EXPECT_LT(largest_difference(merged, adapted), 2e-3 * largest(merged)) << matrix;
    runner.exchange(load_model(runner.path, runner.pool, runner.kernels));
  }
}

TEST_P(Adapters, OfABatchLeaveTheOthersBitsAlone) {
  for (const unsigned threads : {1U, 3U}) {
    Runner runner(GetParam(), "", threads);
    const uint32_t vocab = runner.model->config().vocab;
    const Adapter one = read_adapter(made({}, "one"), *runner.model);
    const Adapter two = read_adapter(made({.rank = 7, .seed = 2}, "two"), *runner.model);
    const std::vector<std::vector<Token>> texts = {tokens_of(20, 1, vocab), tokens_of(1, 2, vocab),
                                                   tokens_of(33, 3, vocab), tokens_of(5, 4, vocab),
                                                   tokens_of(5, 5, vocab)};
    const std::vector<std::pair<const Adapter*, float>> uses = {
        {&one, 1}, {nullptr, 1}, {&two, 0.5F}, {&one, 1}, {&one, 2}};
    std::vector<Slot> slots;
    for (size_t i = 0; i < texts.size(); ++i)
      slots.push_back({.seq = runner.store->open({}).seq,
                       .tokens = texts[i],
                       .parents = {},
                       .adapter = uses[i].first,
                       .adapter_scale = uses[i].second});
    const std::vector<float> together = runner.step(slots);
    size_t at = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<float> alone = logits_of(runner, texts[i], uses[i].first, uses[i].second);
      EXPECT_TRUE(same_bits(std::span(together).subspan(at, alone.size()), alone)) << i;
      at += alone.size();
    }
  }
}

TEST_P(Adapters, GiveATokenTheSameBitsHoweverItsTextIsRead) {
  Runner runner(GetParam());
  const std::vector<Token> tokens = tokens_of(40, 1, runner.model->config().vocab);
  const Adapter adapter = read_adapter(made({}), *runner.model);
  const std::vector<float> whole = logits_of(runner, tokens, &adapter);
  const kv::SeqId seq = runner.store->open({}).seq;
  std::vector<float> pieces;
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min<size_t>(done % 3 == 0 ? 1 : 7, tokens.size() - done);
    const Slot slot = {.seq = seq,
                       .past = static_cast<uint32_t>(done),
                       .tokens = std::span(tokens).subspan(done, count),
                       .parents = {},
                       .adapter = &adapter};
    const std::vector<float> logits = runner.step({&slot, 1});
    pieces.insert(pieces.end(), logits.begin(), logits.end());
    done += count;
  }
  EXPECT_TRUE(same_bits(whole, pieces));
}

// B is stored in pieces of 64 outputs, each read once for several tokens.
TEST(AdaptersOfWideLayers, GiveTheLogitsOfWeightsIntoWhichTheyAreMerged) {
  Runner runner(Arch::kLlama);
  tools::Spec spec = tiny_spec(Arch::kLlama);
  spec.ffn = 1120;
  const std::string path = write_model(spec, runner.pool, false);
  runner.exchange(load_model(path, runner.pool, runner.kernels));
  const std::string file = write_adapter("wide", spec, {.rank = 7});
  const Adapter adapter = read_adapter(file, *runner.model);
  EXPECT_EQ(adapter.bytes(), spec.layers * 7 * 2 * sum_of_sizes(spec));
  for (const uint32_t count : {1U, 2U, 3U, 4U, 11U}) {
    runner.exchange(load_model(path, runner.pool, runner.kernels));
    const std::vector<Token> tokens = tokens_of(count, count, spec.vocab);
    const std::vector<float> adapted = logits_of(runner, tokens, &adapter);
    runner.exchange(load_model(merge_adapter(path, file, 1), runner.pool, runner.kernels));
    const std::vector<float> merged = logits_of(runner, tokens);
    EXPECT_LT(largest_difference(merged, adapted), 2e-3 * largest(merged)) << count;
  }
}

TEST(AdapterElements, AreThoseOfTheFileRoundedTo11Bits) {
  const tools::Spec spec = tiny_spec(Arch::kLlama);
  Runner runner(Arch::kLlama);
  for (const bool halves : {true, false}) {
    const std::string path =
        write_adapter("elements", spec, {.size = 1e-4F, .halves = halves, .seed = 5});
    const auto file = io::open_adapter(path);
    const Adapter adapter = read_adapter(path, *runner.model);
    const io::AdapterPair& pair = file->pairs.front();
    const LowRank& layer = *adapter.find(pair.matrix);
    std::vector<float> a(pair.a.elements()), b(pair.b.elements());
    pair.a.read_floats(a.data());
    pair.b.read_floats(b.data());
    double worst = 0;
    for (uint32_t o = 0; o < layer.outputs; ++o)
      for (uint32_t r = 0; r < layer.rank; ++r) {
        const double ours = double{layer.factor} *
                            kernels::f16_to_f32(layer.a[r * layer.inputs + o % layer.inputs]) *
                            kernels::f16_to_f32(layer.piece(0)[r * layer.outputs + o]);
        const double theirs =
            double{pair.factor} * a[r * layer.inputs + o % layer.inputs] * b[o * layer.rank + r];
        worst = std::max(worst, std::abs(ours / theirs - 1));
      }
    EXPECT_LE(worst, halves ? 1e-7 : 0x1p-10);
    EXPECT_EQ(worst > 1e-7, !halves);
  }
}

// Tokens with the role of prompts use other kernels if the processor has them.
TEST(AdaptersOfPrompts, LeaveOthersBitsAloneUnderEveryInstructionSet) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    Runner runner(Arch::kLlama, "", 2, kernels::DType::kQ8_0, {}, kernels::table(isa));
    const uint32_t vocab = runner.model->config().vocab;
    const Adapter adapter =
        read_adapter(write_adapter("prompts", tiny_spec(Arch::kLlama), {}), *runner.model);
    const std::vector<Token> own = tokens_of(30, 1, vocab), other = tokens_of(19, 2, vocab);
    const auto slot_of = [&](const std::vector<Token>& tokens, const Adapter* used) {
      return Slot{.seq = runner.store->open({}).seq,
                  .tokens = tokens,
                  .parents = {},
                  .role = Role::kPromptLayers,
                  .adapter = used};
    };
    const Slot plain[] = {slot_of(other, nullptr)}, adapted[] = {slot_of(own, &adapter)};
    std::vector<float> expected = runner.step(plain);
    const std::vector<float> behind = runner.step(adapted);
    expected.insert(expected.end(), behind.begin(), behind.end());
    const Slot both[] = {slot_of(other, nullptr), slot_of(own, &adapter)};
    EXPECT_TRUE(same_bits(runner.step(both), expected)) << base::isa_name(isa);
  }
}

class AdapterErrors : public testing::Test {
 protected:
  std::string refusal(const std::string& path) {
    const auto file = io::open_adapter(path);
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    const auto adapter = Adapter::read(*file, *runner_.model);
    return adapter.ok() ? "" : adapter.error().message;
  }
  std::string refusal(const MadeAdapter& made, const tools::Spec& spec) {
    return refusal(write_adapter("wrong", spec, made));
  }
  static void expect_says(const std::string& message, const char* expected) {
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  Runner runner_{Arch::kLlama};
  tools::Spec spec_ = tiny_spec(Arch::kLlama);
};

TEST_F(AdapterErrors, SayWhatDoesNotFitTheModel) {
  EXPECT_EQ(refusal({}, spec_), "");
  expect_says(refusal({}, tiny_spec(Arch::kQwen2)), "of the architecture qwen2");
  tools::Spec wide = spec_;
  wide.dim = 128;
  expect_says(refusal({}, wide), "do not fit");
  tools::Spec deep = spec_;
  deep.layers = 3;
  expect_says(refusal({}, deep), "has 2 layers");
  expect_says(refusal({.matrices = {"ffn_gate_exps"}}, spec_), "layers without experts");
  expect_says(refusal({.matrices = {"attn_qkv"}}, spec_), "kvick adapts the matrices attn_q");
}

// A PEFT folder orders the rows of q and k so that the two halves of a head form the rotated pairs.
// A GGUF file of llama has them reordered, so that adjacent rows form the pairs.
TEST_F(AdapterErrors, AreNoneWhereRowsLieInAnotherOrder) {
  const std::string gguf = write_adapter("order", spec_, {.matrices = {"attn_q"}});
  const auto file = io::open_adapter(gguf);
  ASSERT_TRUE(file.ok());
  const io::TestFolder folder;
  const uint32_t dim = spec_.dim, head = spec_.dim / spec_.heads, rank = 4;
  std::string header = "{", data;
  for (uint32_t layer = 0; layer < spec_.layers; ++layer) {
    const io::AdapterPair& pair = file->pairs[layer];
    const std::string name =
        fmt::format("base_model.model.model.layers.{}.self_attn.q_proj.lora_", layer);
    const auto add = [&](const char* half, const std::string& shape, const std::string& bytes) {
      header += fmt::format(
          R"({}"{}{}.weight":{{"dtype":"F32","shape":{},"data_offsets":[{},{}]}})",
          header.size() > 1 ? "," : "", name, half, shape, data.size(), data.size() + bytes.size());
      data += bytes;
    };
    std::vector<float> a(pair.a.elements()), b(pair.b.elements());
    pair.a.read_floats(a.data());
    pair.b.read_floats(b.data());
    add("A", fmt::format("[{},{}]", rank, dim),
        {reinterpret_cast<const char*>(a.data()), a.size() * sizeof(float)});
    std::string turned;  // row i of the first half and row i of the second were adjacent
    for (uint32_t row = 0; row < dim; ++row) {
      const uint32_t first = row / head * head, i = row % head, half = head / 2;
      const uint32_t from = first + (i < half ? 2 * i : 2 * (i - half) + 1);
      turned.append(reinterpret_cast<const char*>(b.data() + size_t{from} * rank),
                    rank * sizeof(float));
    }
    add("B", fmt::format("[{},{}]", dim, rank), turned);
  }
  folder.write("adapter_model.safetensors", io::safetensors_image(header + "}", data));
  folder.write("adapter_config.json", R"({"peft_type":"LORA","r":4,"lora_alpha":8})");
  const Adapter one = read_adapter(gguf, *runner_.model);
  const Adapter other = read_adapter(folder.path(), *runner_.model);
  const std::vector<Token> tokens = tokens_of(12, 1, spec_.vocab);
  EXPECT_TRUE(same_bits(logits_of(runner_, tokens, &one), logits_of(runner_, tokens, &other)));
}

}  // namespace
}  // namespace kvick::model
