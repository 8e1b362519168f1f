// Models whose layers keep a state: compared with their twin, and tested for ways to lose a state
// or to use another sequence's.

#include <gtest/gtest.h>
#include <numeric>

#include "make_model/families.h"

#include "io/adapter/adapter_file.h"
#include "io/file/test_images.h"
#include "kv/registry/registry.h"
#include "model/adapters/adapter.h"
#include "model/core/share.h"
#include "model/core/test_runner.h"
#include "model/families/read_config.h"
#include "model/states/test_state_twin.h"

namespace kvick::model {
namespace {

constexpr uint32_t kContext = 128;

struct Made {
  explicit Made(std::string_view family)
      : spec(*tools::checked(*tools::made_family(family))),
        model(load_model(write_model(spec, pool, false), pool, kernels)),
        executor(*model, Workspace(pool, kernels)) {}

  std::unique_ptr<kv::Store> store(const char* strategy) {
    kv::Setup setup = {.shape = {.max_tokens = kContext,
                                 .k_type = kernels::DType::kF32,
                                 .v_type = kernels::DType::kF32}};
    set_layers(model->config(), setup);
    setup.compute.store_row = kernels.store_row;
    setup.compute.store_group = kernels.store_group;
    setup.compute.kernels = &kernels;
    return std::move(kv::make_store(*kv::parse_spec(strategy), setup)).value();
  }
  // Returns the logits of every token. kept: rows to keep; null: the step is dropped.
  std::vector<float> step(kv::Store& store, std::span<const Slot> slots, const kv::Kept* kept) {
    const Batch batch = {.slots = slots};
    std::vector<uint32_t> wanted(batch.tokens());
    std::iota(wanted.begin(), wanted.end(), 0U);
    auto step = executor.run(store, batch, wanted).value();
    if (kept != nullptr) step.commit(*kept);
    return {executor.logits().begin(), executor.logits().end()};
  }
  std::vector<float> add(kv::Store& store, kv::SeqId seq, std::span<const Token> tokens) {
    const Slot slot = {.seq = seq, .past = store.length(seq), .tokens = tokens, .parents = {}};
    kv::Kept all = {.rows = {std::vector<uint32_t>(tokens.size())}};
    std::iota(all.rows[0].begin(), all.rows[0].end(), 0U);
    return step(store, {&slot, 1}, &all);
  }
  std::vector<float> add_in_pieces(kv::Store& store, kv::SeqId seq, std::span<const Token> tokens,
                                   size_t piece) {
    std::vector<float> all;
    for (size_t first = 0; first < tokens.size(); first += piece) {
      const auto part =
          add(store, seq, tokens.subspan(first, std::min(piece, tokens.size() - first)));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  base::ThreadPool pool{2};
  const kernels::Table& kernels = kernels::table(base::best_isa());
  tools::Spec spec;
  std::unique_ptr<Model> model;
  Executor executor;
};

class Families : public testing::TestWithParam<const char*> {
 protected:
  std::vector<Token> tokens(uint32_t count, uint32_t seed) const {
    return tokens_of(count, seed, made_.spec.vocab);
  }
  std::span<const float> rows(const std::vector<float>& logits, size_t first, size_t count) const {
    return std::span(logits).subspan(first * made_.spec.vocab, count * made_.spec.vocab);
  }
  Made made_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(States, Families,
                         testing::Values("lfm2", "lfm2moe", "granitehybrid", "granitehybrid-moe",
                                         "falcon-h1", "falcon-h1-plain", "nemotron_h",
                                         "nemotron_h_moe", "mamba2"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(Families, ComputeWhatTheirTwinDoes) {
  StateTwin twin(made_.spec);
  const auto store = made_.store("paged:block=4");
  const std::vector<Token> text = tokens(12, 7);
  const std::vector<float> logits = made_.add(*store, store->open({}).seq, text);
  double most = 0, off = 0;
  for (size_t t = 0; t < text.size(); ++t) {
    const StateTwin::Vector expected = twin.logits(text[t]);
    for (size_t i = 0; i < expected.size(); ++i) {
      off = std::max(off, std::abs(logits[t * expected.size() + i] - expected[i]));
      most = std::max(most, std::abs(expected[i]));
    }
  }
  EXPECT_GT(most, 1);
  EXPECT_LT(off, 1e-4 * most);
}

TEST_P(Families, GiveTheSameBitsOverEveryStrategyHoweverAPromptIsCut) {
  const std::vector<Token> text = tokens(36, 3), wrong = {1, 2, 3};
  const auto plain = made_.store("virtual");
  const std::vector<float> expected = made_.add(*plain, plain->open({}).seq, text);
  for (const char* strategy :
       {"virtual", "bmc:r=16", "iterative", "upfront", "paged:block=4", "sliding"}) {
    const auto store = made_.store(strategy);
    for (const size_t piece : {1, 7, 36}) {
      const kv::SeqId seq = store->open({}).seq;
      std::vector<float> logits;
      for (size_t past = 0; past < text.size(); past += piece) {
        // Neither a dropped step nor a fork with other tokens may leave a trace.
        const Slot dropped = {
            .seq = seq, .past = store->length(seq), .tokens = wrong, .parents = {}};
        made_.step(*store, {&dropped, 1}, nullptr);
        const kv::SeqId fork = store->fork(seq).value();
        made_.add(*store, fork, wrong);
        store->close(fork);
        const auto part =
            made_.add(*store, seq, std::span(text).subspan(past, std::min(piece, 36 - past)));
        logits.insert(logits.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(logits, expected)) << strategy << " in pieces of " << piece;
      store->close(seq);
    }
  }
}

TEST_P(Families, KeepThePathOfADraftTreeThatIsKept) {
  const std::vector<Token> text = tokens(12, 5);
  const auto store = made_.store("paged:block=4"), plain = made_.store("paged:block=4");
  const std::vector<float> expected = made_.add(*plain, plain->open({}).seq, text);
  const kv::SeqId seq = store->open({}).seq;
  made_.add(*store, seq, std::span(text).first(8));
  // Two wrong tokens beside the right ones, each after its parent.
  const std::vector<Token> drafts = {9, text[8], 8, text[9], text[10]};
  const std::vector<int32_t> parents = {-1, -1, 1, 1, 3};
  const Slot slot = {.seq = seq, .past = 8, .tokens = drafts, .parents = parents};
  const kv::Kept path = {.rows = {{1, 3, 4}}};
  const std::vector<float> logits = made_.step(*store, {&slot, 1}, &path);
  EXPECT_TRUE(same_bits(rows(logits, 1, 1), rows(expected, 8, 1)));
  EXPECT_TRUE(same_bits(rows(logits, 3, 2), rows(expected, 9, 2)));
  EXPECT_TRUE(same_bits(made_.add(*store, seq, std::span(text).last(1)), rows(expected, 11, 1)));
}

TEST_P(Families, GiveEachSequenceOfABatchWhatItGetsAlone) {
  const std::vector<uint32_t> lengths = {5, 1, 9};
  const auto store = made_.store("paged:block=4"), alone = made_.store("paged:block=4");
  std::vector<std::vector<Token>> texts;
  std::vector<float> expected;
  std::vector<Slot> slots;
  kv::Kept all;
  for (uint32_t i = 0; i < 3; ++i) {
    texts.push_back(tokens(6 + lengths[i], 20 + i));
    const auto fresh = std::span(texts[i]).last(lengths[i]);
    const kv::SeqId single = alone->open({}).seq, seq = store->open({}).seq;
    made_.add(*alone, single, std::span(texts[i]).first(6));
    const auto one = made_.add(*alone, single, fresh);
    expected.insert(expected.end(), one.begin(), one.end());
    made_.add(*store, seq, std::span(texts[i]).first(6));
    slots.push_back({.seq = seq, .past = 6, .tokens = {}, .parents = {}});
    all.rows.emplace_back(lengths[i]);
    std::iota(all.rows.back().begin(), all.rows.back().end(), 0U);
  }
  for (uint32_t i = 0; i < 3; ++i) slots[i].tokens = std::span(texts[i]).last(lengths[i]);
  EXPECT_TRUE(same_bits(made_.step(*store, slots, &all), expected));
}

TEST_P(Families, GoOnFromTheStateOfAClosedSequence) {
  const std::vector<Token> text = tokens(30, 11);
  const auto store = made_.store("paged:block=4");
  const kv::SeqId first = store->open({}).seq;
  const std::vector<float> expected = made_.add_in_pieces(*store, first, text, 24);
  const kv::SeqId before = store->open({}).seq;
  made_.add(*store, before, std::span(text).first(24));
  store->close(before);
  const kv::Opened again = store->open(text);
  EXPECT_EQ(again.cached, 24u);
  EXPECT_TRUE(
      same_bits(made_.add(*store, again.seq, std::span(text).last(6)), rows(expected, 24, 6)));
}

TEST(States, GoToStagesAndAreNotDivided) {
  const auto find = [](std::string_view) -> const io::Tensor* { return nullptr; };
  const auto refusal = [&](const char* family, decltype(share_of)* divide) {
    const Made made(family);
    const Config& config = made.model->config();
    const auto share = divide(config, ffn_shapes(config, find), 0, 2);
    return share.ok() ? "" : share.error().message;
  };
  EXPECT_EQ(refusal("lfm2", share_of),
            "lfm2 has layers that keep a state, of which --ranks divides none: use --pipeline, "
            "which gives each rank some layers");
  EXPECT_EQ(refusal("lfm2", stage_of), "");
  for (const auto divide : {share_of, stage_of})
    EXPECT_EQ(refusal("falcon-h1", divide),
              "each layer of falcon-h1 keeps rows and a state, which runs in one process: leave "
              "--ranks out");
}

TEST(States, OfFalconsHaveFactorsThatAdaptersLack) {
  const io::TestFolder folder;
  const std::string name = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  folder.write(
      "adapter_model.safetensors",
      io::safetensors_image(
          R"({")" + name + R"(A.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},")" +
              name + R"(B.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}})",
          std::string(16, '\0')));
  folder.write("adapter_config.json", R"({"peft_type":"LORA","r":1,"lora_alpha":1})");
  const auto file = io::open_adapter(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Made falcon("falcon-h1"), granite("granitehybrid");
  const auto refused = Adapter::read(*file, *falcon.model);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("has factors in its weights that this adapter's"),
            std::string::npos)
      << refused.error().message;
  const auto other = Adapter::read(*file, *granite.model);  // refused for its shape alone
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message.find("factors"), std::string::npos) << other.error().message;
}

std::string error_of(tools::Spec spec) {
  base::ThreadPool pool(1);
  const auto file = io::ModelFile::open(write_model(spec, pool, false));
  const auto config = read_config(*file);
  return config.ok() ? "" : config.error().message.substr(file->path().size());
}

TEST(States, AreOfNumbersThatFit) {
  tools::Spec spec = *tools::made_family("mamba2");
  spec.features.state_groups = 3;
  EXPECT_EQ(error_of(spec),
            ": mamba2.ssm.inner_size is 128, which 8 heads in 3 groups cannot share evenly");
  spec.features.state_groups = 1;
  spec.features.conv_kernel = 1;
  EXPECT_EQ(error_of(spec),
            ": mamba2.ssm.conv_kernel is 1, but a convolution over one token alone is none");
  spec.features.conv_kernel = 4;
  EXPECT_EQ(error_of(spec), "");
}

// Some of LFM2's files are encoders, whose convolutions also see later tokens.
TEST(States, AreOfTextsReadOneWay) {
  tools::Spec spec = *tools::made_family("lfm2");
  spec.features.keys = {{"attention.causal", false}};
  EXPECT_EQ(error_of(spec), ": lfm2.attention.causal is false, but kvick reads lfm2 one way only");
}

}  // namespace
}  // namespace kvick::model
