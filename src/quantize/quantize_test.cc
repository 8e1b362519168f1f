#include "quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <unistd.h>

#include "make_model/families.h"
#include "make_model/gguf.h"
#include "make_model/hugging_face.h"
#include "quantize/metadata.h"
#include "quantize/output_file.h"

namespace kvick::quantize {
namespace {

namespace fs = std::filesystem;
using kernels::DType;

std::vector<float> values(const io::Tensor& tensor) {
  std::vector<float> out(tensor.elements());
  kernels::to_f32(tensor.dtype, tensor.data.data(), out.size(), out.data());
  return out;
}

// Returns the root of the squared error relative to the squares.
double distance(const io::Tensor& one, const io::Tensor& exact) {
  const std::vector<float> a = values(one), b = values(exact);
  double off = 0, all = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    off += double{a[i] - b[i]} * (a[i] - b[i]);
    all += double{b[i]} * b[i];
  }
  return std::sqrt(off / all);
}

class Quantize : public testing::Test {
 protected:
  Quantize() { fs::create_directories(folder_); }
  ~Quantize() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  io::ModelFile open(const std::string& name) const {
    auto file = io::ModelFile::open(at(name));
    EXPECT_TRUE(file.ok()) << file.error().message;
    return std::move(file).value();
  }

  // Quantises `from` to `to`.
  base::Status<> run(const std::string& from, const std::string& to, Options options) {
    choices_.clear();
    KVICK_TRY(io::ModelFile file, io::ModelFile::open(at(from)));
    file_ = std::make_unique<io::ModelFile>(std::move(file));
    KVICK_TRY(Source source, Source::make(*file_));
    source_ = std::make_unique<Source>(std::move(source));
    KVICK_TRY(choices_, choose(*source_, options));
    return write(*source_, options, choices_, at(to), pool_);
  }
  io::ModelFile quantised(const std::string& from, Options options) {
    const auto status = run(from, "out.gguf", std::move(options));
    EXPECT_TRUE(status.ok()) << status.error().message;
    return open("out.gguf");
  }
  void make(const tools::Spec& spec) {
    const auto whole = tools::checked(spec);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    ASSERT_TRUE(tools::make_gguf(at("in.gguf"), *whole, pool_).ok());
  }

  base::ThreadPool pool_{2};
  std::string folder_ = fmt::format("{}quantize_{}", testing::TempDir(), getpid());
  std::unique_ptr<io::ModelFile> file_;  // of the last run
  std::unique_ptr<Source> source_;
  std::vector<Choice> choices_;
};

Options type(std::string_view name) { return {.recipe = *find_recipe(name)}; }

TEST_F(Quantize, gives_each_tensor_the_type_of_the_recipe_and_values_near_its_own) {
  make({.layers = 8});
  const io::ModelFile before = open("in.gguf"), after = quantised("in.gguf", type("Q4_K_M"));
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  EXPECT_EQ(after.find("blk.3.attn_q.weight")->dtype, DType::kQ4_K);
  EXPECT_EQ(after.find("blk.0.ffn_down.weight")->dtype, DType::kQ6_K);
  EXPECT_EQ(after.find("output.weight")->dtype, DType::kQ6_K);
  EXPECT_EQ(*after.get_uint("general.file_type"), 15u);
  EXPECT_EQ(*after.get_string("general.name"), *before.get_string("general.name"));
  EXPECT_EQ(*after.get_strings("tokenizer.ggml.tokens"),
            *before.get_strings("tokenizer.ggml.tokens"));
  for (const io::Tensor& tensor : before.tensors()) {
    const io::Tensor& made = *after.find(tensor.name);
    EXPECT_EQ(made.shape, tensor.shape);
    if (tensor.shape.size() == 1) {
      EXPECT_EQ(made.dtype, DType::kF32);
      EXPECT_EQ(values(made), values(tensor));
    } else {
      EXPECT_LT(distance(made, tensor), 0.1) << tensor.name;
    }
  }
  EXPECT_FALSE(fs::exists(at("out.gguf.part")));
}

TEST_F(Quantize, reports_the_errors_that_the_file_has) {
  make({});
  const io::ModelFile before = open("in.gguf"), after = quantised("in.gguf", type("Q4_0"));
  for (const Choice& choice : choices_) {
    if (choice.kept()) continue;
    const std::string& name = choice.tensor->name;
    EXPECT_NEAR(std::sqrt(choice.error / choice.squares),
                distance(*after.find(name), *before.find(name)), 1e-6)
        << name;
  }
}

// A folder and a GGUF file of the same weights: converting the folder must give make_model's file.
TEST_F(Quantize, a_folder_becomes_the_gguf_file_of_the_same_weights) {
  struct Case {
    tools::Arch arch;
    tools::Scaling scaling;
    uint32_t shards;
  };
  for (const Case& c : {Case{tools::Arch::kLlama, tools::Scaling::kNone, 1},
                        Case{tools::Arch::kLlama, tools::Scaling::kLlama3, 2},
                        Case{tools::Arch::kLlama, tools::Scaling::kYarn, 1},
                        Case{tools::Arch::kQwen2, tools::Scaling::kLinear, 3},
                        Case{tools::Arch::kQwen3, tools::Scaling::kNone, 1}}) {
    tools::Spec spec;
    spec.arch = c.arch;
    spec.scaling = c.scaling;
    spec.context = 256;
    if (c.scaling != tools::Scaling::kNone) spec.scaling_factor = 4;
    make(spec);
    fs::remove_all(at("hf"));
    ASSERT_TRUE(tools::make_hugging_face(at("hf"), *tools::checked(spec), c.shards, pool_).ok());
    const io::ModelFile want = open("in.gguf"), got = quantised("hf", type("F32"));
    for (const io::Tensor& tensor : want.tensors()) {
      const io::Tensor* made = got.find(tensor.name);
      ASSERT_NE(made, nullptr) << tensor.name;
      EXPECT_EQ(made->shape, tensor.shape) << tensor.name;
      if (tensor.name == "rope_freqs.weight") {
        EXPECT_LT(distance(*made, tensor), 1e-6);
      } else {
        EXPECT_EQ(values(*made), values(tensor)) << tensor.name;
      }
    }
    EXPECT_EQ(got.tensors().size(), want.tensors().size());
    const std::string arch = *want.get_string("general.architecture");
    for (const char* key : {".embedding_length", ".block_count", ".attention.head_count",
                            ".attention.head_count_kv", ".feed_forward_length", ".context_length"})
      EXPECT_EQ(*got.get_uint(arch + key), *want.get_uint(arch + key)) << key;
    EXPECT_EQ(got.metadata().contains("kvick.rope.interleaved"), false);
    EXPECT_EQ(got.metadata().contains(arch + ".rope.scaling.factor"),
              want.metadata().contains(arch + ".rope.scaling.factor"));
    EXPECT_EQ(*got.get_strings("tokenizer.ggml.merges"),
              *want.get_strings("tokenizer.ggml.merges"));
    // A Source of the written file has all its metadata pairs: writing it again changes nothing.
    EXPECT_TRUE(run("out.gguf", "again.gguf", type("F32")).ok());
    EXPECT_EQ(fs::file_size(at("again.gguf")), fs::file_size(at("out.gguf")));
  }
}

// EXAONE 4's layers without a window do not rotate.
TEST_F(Quantize, rotary_divisors_are_those_of_layers_that_rotate) {
  fs::create_directories(at("hf"));
  std::ofstream(at("hf/config.json"))
      << R"({"model_type": "exaone4", "vocab_size": 6, "hidden_size": 64, "intermediate_size": 96,)"
      << R"( "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 256,)"
      << R"( "tie_word_embeddings": true, "sliding_window": 32, "rope_theta": 10000.0,)"
      << R"( "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,)"
      << R"( "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})";
  const std::string header = R"({"model.embed_tokens.weight":)"
                             R"( {"dtype": "F32", "shape": [6, 64], "data_offsets": [0, 1536]}})";
  const uint64_t bytes = header.size();
  std::ofstream(at("hf/model.safetensors"), std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) << header
      << std::string(1536, '\0');
  const io::ModelFile file = open("hf");
  const auto source = Source::make(file);
  ASSERT_TRUE(source.ok()) << source.error().message;
  const auto& tensors = source->tensors();
  const auto factors = std::find_if(tensors.begin(), tensors.end(), [](const SourceTensor& t) {
    return t.name == "rope_freqs.weight";
  });
  ASSERT_NE(factors, tensors.end());
  ASSERT_EQ(factors->values.size(), 8u);  // pairs of a head of 16 elements
  EXPECT_NEAR(factors->values.front(), 1, 1e-6);
  EXPECT_NEAR(factors->values.back(), 4, 1e-5);
}

TEST_F(Quantize, an_integer_that_gguf_has_no_room_for_is_an_error) {
  const auto put = [](io::Value value) {
    io::GgufMetadata out;
    const auto status = put_metadata({{"llama.x", std::move(value)}}, out);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(put({uint64_t{UINT32_MAX}}), "");
  EXPECT_EQ(
      put({uint64_t{1} << 32}),
      "llama.x is 4294967296, but GGUF files have 32 bits for it: correct the folder's config");
  EXPECT_NE(put({int64_t{-1}}).find("llama.x is -1,"), std::string::npos);
  EXPECT_EQ(put({std::vector<int64_t>{INT32_MIN, INT32_MAX}}), "");
  EXPECT_NE(put({std::vector<uint64_t>{1, uint64_t{1} << 31}}).find("llama.x is 2147483648,"),
            std::string::npos);
}

TEST_F(Quantize, experts_are_weighed_each_by_its_own_importance) {
  tools::Spec spec = *tools::made_family("qwen3moe");
  make(spec);
  const io::ModelFile before = open("in.gguf");
  const std::string name = "blk.0.ffn_up_exps.weight";
  const io::Tensor& exact = *before.find(name);
  ASSERT_EQ(exact.shape.size(), 3u);
  const uint64_t experts = exact.shape[0], inputs = exact.shape[2];
  Importance importance;
  Importance::Sums& sums = importance.tensors[name];
  sums.tokens.assign(experts, 10);
  sums.tokens[1] = 0;  // expert 1 has no known importance
  sums.squares.assign(experts * inputs, 1);
  for (uint64_t i = 0; i < inputs; i += 4) sums.squares[i] = 10000;  // expert 0
  Options options = type("Q4_0");
  const io::ModelFile plain = quantised("in.gguf", options);
  const std::vector<float> alike = values(*plain.find(name));
  options.importance = &importance;
  const io::ModelFile weighted = quantised("in.gguf", options);
  const std::vector<float> ours = values(*weighted.find(name)), want = values(exact);
  const size_t each = ours.size() / experts;
  double before_error = 0, after_error = 0;
  for (size_t i = 0; i < each; ++i) {
    if (i % inputs % 4 != 0) continue;
    before_error += double{alike[i] - want[i]} * (alike[i] - want[i]);
    after_error += double{ours[i] - want[i]} * (ours[i] - want[i]);
  }
  EXPECT_LT(after_error, 0.9 * before_error);
  EXPECT_TRUE(std::equal(ours.begin() + static_cast<ptrdiff_t>(each), ours.end(),
                         alike.begin() + static_cast<ptrdiff_t>(each)))
      << "the other experts' columns count alike";
}

TEST_F(Quantize, the_smallest_types_are_refused_without_importance) {
  make({.layers = 2, .ffn = 256, .tied = true});
  const auto none = run("in.gguf", "out.gguf", type("IQ2_XS"));
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("kvick train imatrix makes one for --importance"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(at("out.gguf")));
  EXPECT_TRUE(run("in.gguf", "out.gguf", type("IQ3_S")).ok());
  Importance importance;
  const io::ModelFile before = open("in.gguf");
  for (const io::Tensor& tensor : before.tensors())
    if (tensor.shape.size() == 2 && tensor.name != "blk.1.ffn_up.weight")
      importance.tensors[tensor.name] = {.squares = std::vector<float>(tensor.shape[1], 1),
                                         .tokens = {1}};
  Options options = type("IQ2_XS");
  options.importance = &importance;
  const auto one = run("in.gguf", "out.gguf", options);
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.error().message.find("blk.1.ffn_up.weight"), std::string::npos);
  EXPECT_NE(one.error().message.find("file does not have it"), std::string::npos);
  importance.tensors["blk.1.ffn_up.weight"] = {.squares = {1, 1}, .tokens = {1}};
  EXPECT_FALSE(run("in.gguf", "out.gguf", options).ok()) << "of another width";
  importance.tensors["blk.1.ffn_up.weight"] = importance.tensors["blk.0.ffn_up.weight"];
  const io::ModelFile after = quantised("in.gguf", options);
  EXPECT_EQ(after.find("blk.1.ffn_up.weight")->dtype, DType::kIQ2_XS);
  EXPECT_LT(distance(*after.find("blk.1.ffn_up.weight"), *before.find("blk.1.ffn_up.weight")), 0.3);
}

TEST_F(Quantize, overrides_go_before_the_recipe) {
  make({.layers = 3});
  Options options = type("Q4_0");
  options.overrides = {{"blk.1.ffn_*.weight", DType::kQ6_K}, {"blk.*.ffn_up.weight", DType::kQ8_0}};
  const io::ModelFile after = quantised("in.gguf", options);
  EXPECT_EQ(after.find("blk.1.ffn_up.weight")->dtype, DType::kQ6_K);
  EXPECT_EQ(after.find("blk.0.ffn_up.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(after.find("blk.0.ffn_down.weight")->dtype, DType::kQ4_0);
  options.overrides = {{"blk.9.*", DType::kQ8_0}};
  const auto wrong = run("in.gguf", "out.gguf", options);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("no tensor of that name"), std::string::npos);
}

TEST_F(Quantize, a_weight_that_is_not_finite_is_an_error_and_leaves_no_file) {
  make({.layers = 1});
  const auto put = [&](float bad) {
    const io::ModelFile file = open("in.gguf");
    const io::Tensor& tensor = *file.find("blk.0.ffn_up.weight");
    std::ifstream in(at("in.gguf"), std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    const std::string row(reinterpret_cast<const char*>(tensor.data.data()), 64);
    const size_t where = bytes.find(row);
    ASSERT_NE(where, std::string::npos);
    std::memcpy(bytes.data() + where + 8, &bad, sizeof bad);
    std::ofstream(at("bad.gguf"), std::ios::binary) << bytes;
  };
  put(NAN);
  const auto status = run("bad.gguf", "out.gguf", type("Q4_K_M"));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("blk.0.ffn_up.weight has weights that are not finite"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(at("out.gguf")));
  EXPECT_FALSE(fs::exists(at("out.gguf.part")));
  put(1e6F);
  const auto large = run("bad.gguf", "out.gguf", type("F16"));
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("blk.0.ffn_up.weight has weights beyond the largest F16"),
            std::string::npos);
  EXPECT_TRUE(run("bad.gguf", "out.gguf", type("Q8_0")).ok());
}

TEST_F(Quantize, a_place_that_cannot_be_written_is_an_error) {
  make({.layers = 1});
  const auto status = run("in.gguf", "no/such/folder/out.gguf", type("Q8_0"));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("cannot write"), std::string::npos);
}

TEST_F(Quantize, two_writers_of_one_file_do_not_mix) {
  auto first = OutputFile::open(at("out.gguf"));
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto second = OutputFile::open(at("out.gguf"));
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another process is writing it"), std::string::npos);
  ASSERT_TRUE(first->write("whole").ok() && first->finish().ok());
  EXPECT_EQ(fs::file_size(at("out.gguf")), 5u);
  EXPECT_TRUE(OutputFile::open(at("out.gguf")).ok());
  EXPECT_FALSE(fs::exists(at("out.gguf.part")));
}

TEST_F(Quantize, importance_is_read_as_it_was_written) {
  Importance importance;
  importance.text = "essay.txt";
  importance.chunks = 3, importance.chunk_tokens = 512;
  importance.tensors["a.weight"] = {.squares = {1, 2, 3, 4}, .tokens = {2}};
  importance.tensors["b_exps.weight"] = {.squares = {1, 2, 3, 4}, .tokens = {2, 0}};
  ASSERT_TRUE(write_importance(importance, at("i.gguf")).ok());
  const auto read = read_importance(at("i.gguf"));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text, "essay.txt");
  EXPECT_EQ(read->means("a.weight", 0, 4), (std::vector<float>{0.5, 1, 1.5, 2}));
  EXPECT_EQ(read->means("b_exps.weight", 0, 2), (std::vector<float>{0.5, 1}));
  EXPECT_TRUE(read->means("b_exps.weight", 1, 2).empty()) << "no token";
  EXPECT_TRUE(read->means("a.weight", 0, 3).empty()) << "another width";
  EXPECT_TRUE(read->means("c.weight", 0, 4).empty());
}

TEST_F(Quantize, importance_files_that_are_none_are_refused) {
  make({.layers = 1});
  const auto model = read_importance(at("in.gguf"));
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("not an importance file"), std::string::npos);
  for (const Importance::Sums& bad : {Importance::Sums{.squares = {1, -2}, .tokens = {1}},
                                      Importance::Sums{.squares = {1, NAN}, .tokens = {1}},
                                      Importance::Sums{.squares = {1, 2}, .tokens = {-1}}}) {
    Importance importance;
    importance.tensors["a.weight"] = bad;
    ASSERT_TRUE(write_importance(importance, at("bad.gguf")).ok());
    EXPECT_FALSE(read_importance(at("bad.gguf")).ok());
  }
}

}  // namespace
}  // namespace kvick::quantize
