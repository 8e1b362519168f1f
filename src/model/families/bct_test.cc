// Compares the Bounded-Cache Transformer with a twin that takes its weights from make_model's
// definition.

#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

#include "kv/registry/registry.h"
#include "model/core/executor.h"
#include "model/core/test_model.h"

namespace kvick::model {
namespace {

using Vector = std::vector<double>;

// The forward of docs/adr/0008-a-memory-of-slots.md, one token at a time.
class Twin {
 public:
  Twin(const tools::Spec& spec, const std::vector<tools::TensorInfo>& tensors, bool normed = false)
      : spec_(spec), normed_(normed) {
    for (const tools::TensorInfo& tensor : tensors) {
      std::vector<float>& data = weights_[tensor.name];
      data.resize(tensor.rows() * tensor.inputs());
      for (uint64_t row = 0; row < tensor.rows(); ++row)
        tools::fill_row(spec, tensor, row, data.data() + row * tensor.inputs());
    }
    for (uint32_t l = 0; l < spec.layers; ++l) {
      const auto& init = weights_[fmt::format("blk.{}.memory_init.weight", l)];
      values_.emplace_back(init.begin(), init.end());
      values_.back().resize(size_t{spec.kv_heads} * spec.slots * spec.head_dim);
      brought_.emplace_back(size_t{spec.kv_heads} * spec.head_dim);
    }
  }

  Vector logits(Token token) {
    const std::vector<float>& rows = weights_["token_embd.weight"];
    Vector x(rows.begin() + static_cast<ptrdiff_t>(token) * spec_.dim,
             rows.begin() + static_cast<ptrdiff_t>(token + 1) * spec_.dim);
    for (uint32_t l = 0; l < spec_.layers; ++l) {
      const std::string blk = fmt::format("blk.{}.", l);
      add(x, product(attend(norm(x, blk + "attn_norm"), l), blk + "attn_output"));
      const Vector h = norm(x, blk + "ffn_norm");
      Vector gate = product(h, blk + "ffn_gate"), up = product(h, blk + "ffn_up");
      for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
      add(x, product(up, blk + "ffn_down"));
    }
    return product(norm(x, "output_norm"), "output");
  }

 private:
  Vector attend(const Vector& h, uint32_t l) {
    const std::string blk = fmt::format("blk.{}.", l);
    const Vector q = product(h, blk + "attn_q"), wv = product(h, blk + "memory_wv");
    Vector wq = product(h, blk + "memory_wq");
    if (!weights_[blk + "memory_before.weight"].empty()) {
      add(wq, brought_[l]);
      brought_[l] = product(h, blk + "memory_before");
    }
    const bool stepped = !weights_[blk + "memory_step.weight"].empty();
    Vector step = stepped ? product(h, blk + "memory_step") : Vector(spec_.kv_heads);
    const bool gated = !weights_[blk + "memory_gate.weight"].empty();
    const Vector gate = gated ? product(h, blk + "memory_gate") : Vector(spec_.kv_heads);
    Vector out(q.size());
    const uint32_t dim = spec_.head_dim;
    for (uint32_t head = 0; head < spec_.heads; ++head) {
      const uint32_t kv = head / (spec_.heads / spec_.kv_heads);
      double* values = &values_[l][size_t{kv} * spec_.slots * dim];
      if (head % (spec_.heads / spec_.kv_heads) == 0) {
        const Vector weights = softmax(&wq[kv * dim], blk, kv);
        if (stepped) step[kv] += weights_[blk + "memory_step.bias"][kv];
        const double eta = stepped ? sigmoid(step[kv]) : 1;
        const double gamma = gated ? sigmoid(gate[kv] + weights_[blk + "memory_gate.bias"][kv]) : 1;
        for (uint32_t i = 0; i < spec_.slots * dim; ++i)
          values[i] = gamma * values[i] + eta * weights[i / dim] * wv[kv * dim + i % dim];
      }
      const Vector probs = softmax(&q[head * dim], blk, kv);
      for (uint32_t i = 0; i < spec_.slots * dim; ++i)
        out[head * dim + i % dim] += probs[i / dim] * values[i];
      if (normed_) bring_to_one_size(std::span(out).subspan(head * dim, dim));
    }
    return out;
  }
  void bring_to_one_size(std::span<double> read) const {
    double squares = 0;
    for (double& x : read) x *= spec_.slots, squares += x * x;
    for (double& x : read)
      x /= std::sqrt(squares / static_cast<double>(read.size()) + spec_.norm_eps());
  }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  Vector softmax(const double* x, const std::string& blk, uint32_t kv) {
    const std::vector<float>& keys = weights_[blk + "memory_keys.weight"];
    Vector weights(spec_.slots);
    double sum = 0;
    for (uint32_t m = 0; m < spec_.slots; ++m) {
      double dot = 0;
      for (uint32_t d = 0; d < spec_.head_dim; ++d)
        dot += x[d] * keys[(size_t{kv} * spec_.slots + m) * spec_.head_dim + d];
      sum += weights[m] = std::exp(dot / std::sqrt(spec_.head_dim));
    }
    for (double& weight : weights) weight /= sum;
    return weights;
  }
  Vector product(const Vector& x, const std::string& name) {
    const std::vector<float>& w = weights_.at(name + ".weight");
    Vector y(w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * w[r * x.size() + i];
    return y;
  }
  Vector norm(const Vector& x, const std::string& name) {
    double squares = 0;
    for (const double e : x) squares += e * e;
    Vector y = x;
    for (size_t i = 0; i < x.size(); ++i)
      y[i] *= weights_.at(name + ".weight")[i] /
              std::sqrt(squares / static_cast<double>(x.size()) + spec_.norm_eps());
    return y;
  }
  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const tools::Spec& spec_;
  const bool normed_;
  std::map<std::string, std::vector<float>> weights_;
  std::vector<Vector> values_;  // per layer: [kv_heads][slots][head_dim]
  std::vector<Vector>
      brought_;  // per layer: the previous token's part of the write query, [kv_heads][head_dim]
};

tools::Spec bct_spec() { return *tools::checked(tiny_spec(tools::Arch::kBct)); }

// Metadata of a file that make_model does not write.
struct Said {
  uint32_t slots = 0;  // 0: the value that make_model writes
  bool rotates = false;
  std::string update;  // empty: no such key
  std::string read;    // empty: no such key
};

// Writes a file with these tensors and make_model's metadata, changed by `said`. Returns its path.
std::string write(const std::string& name, const tools::Spec& spec,
                  const std::vector<tools::TensorInfo>& tensors, const Said& said = {}) {
  base::ThreadPool pool(1);
  tools::GgufMetadata metadata;
  metadata.put("general.architecture", std::string_view("bct"));
  metadata.put("bct.block_count", spec.layers);
  metadata.put("bct.embedding_length", spec.dim);
  metadata.put("bct.feed_forward_length", spec.ffn);
  metadata.put("bct.context_length", spec.context);
  metadata.put("bct.attention.head_count", spec.heads);
  metadata.put("bct.attention.head_count_kv", spec.kv_heads);
  metadata.put("bct.attention.key_length", spec.head_dim);
  if (said.rotates) metadata.put("bct.rope.dimension_count", spec.head_dim);
  metadata.put("bct.memory.slots", said.slots != 0 ? said.slots : spec.slots);
  if (!said.update.empty()) metadata.put("bct.memory.update", std::string_view(said.update));
  if (!said.read.empty()) metadata.put("bct.memory.read", std::string_view(said.read));
  const std::string path = test_path(name);
  const auto written = tools::write_gguf(
      path, metadata, tensors,
      [&](const tools::TensorInfo& tensor, uint64_t row, float* out) {
        tools::fill_row(spec, tensor, row, out);
      },
      pool);
  EXPECT_TRUE(written.ok());
  return path;
}

std::vector<tools::TensorInfo> without(std::vector<tools::TensorInfo> tensors,
                                       std::string_view part) {
  std::erase_if(tensors, [&](const tools::TensorInfo& tensor) {
    return tensor.name.find(part) != std::string::npos;
  });
  return tensors;
}

// Adds gates to every layer; most of them keep more than half of the slots' content.
std::vector<tools::TensorInfo> with_gates(const tools::Spec& spec) {
  std::vector<tools::TensorInfo> tensors = tools::tensors_of(spec);
  for (uint32_t l = 0; l < spec.layers; ++l) {
    tools::TensorInfo weight = {.name = fmt::format("blk.{}.memory_gate.weight", l),
                                .shape = {spec.kv_heads, spec.dim},
                                .sd = 0.1F};
    tools::TensorInfo bias = {.name = fmt::format("blk.{}.memory_gate.bias", l),
                              .shape = {spec.kv_heads},
                              .mean = 2,
                              .sd = 0.5F};
    tensors.push_back(std::move(weight));
    tensors.push_back(std::move(bias));
  }
  return tensors;
}

// Adds memory_before tensors, so that each token changes the next token's write query.
std::vector<tools::TensorInfo> with_before(const tools::Spec& spec,
                                           std::vector<tools::TensorInfo> tensors) {
  for (uint32_t l = 0; l < spec.layers; ++l)
    tensors.push_back({.name = fmt::format("blk.{}.memory_before.weight", l),
                       .shape = {spec.kv_heads * spec.head_dim, spec.dim},
                       .sd = 0.3F});
  return tensors;
}

std::string load_error(const std::string& path) {
  base::ThreadPool pool(1);
  auto file = io::ModelFile::open(path);
  EXPECT_TRUE(file.ok());
  const auto model = Model::load(std::move(file).value(),
                                 {.kernels = &kernels::table(base::Isa::kScalar), .pool = &pool});
  return model.ok() ? "" : model.error().message.substr(path.size());
}

// The model of a file, with a store for its slots.
struct Loaded {
  explicit Loaded(const std::string& path) : model(load_model(path, pool, kernels)) {
    const kv::Setup setup = {.shape = model->kv_shape(kernels::DType::kF32, kernels::DType::kF32),
                             .slots = model->trained_slots(),
                             .compute = {.kernels = &kernels, .pool = &pool}};
    store = std::move(kv::make_store({"bounded", {}}, setup)).value();
  }

  // Returns the logits of all tokens of a step that keeps these rows; null: all rows.
  std::vector<float> step(const std::vector<Slot>& slots, const kv::Kept* kept = nullptr) {
    const Batch batch = {.slots = slots};
    std::vector<uint32_t> wanted(batch.tokens());
    std::iota(wanted.begin(), wanted.end(), 0);
    auto begun = executor.run(*store, batch, wanted).value();
    begun.commit(kept != nullptr ? *kept : begun.all());
    return {executor.logits().begin(), executor.logits().end()};
  }

  base::ThreadPool pool{2};
  const kernels::Table& kernels = kernels::table(base::best_isa());
  std::unique_ptr<Model> model;
  Executor executor{*model, {pool, kernels}};
  std::unique_ptr<kv::Store> store;
};

void expect_near(const float* logits, const Vector& expected) {
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 2e-4) << i;
}

void expect_as_twin(const std::string& path, Twin twin) {
  Loaded loaded(path);
  const kv::SeqId seq = loaded.store->open({}).seq;
  uint32_t past = 0;
  for (const uint32_t n : {1U, 70U, 1U, 8U}) {
    std::vector<Token> tokens(n);
    for (uint32_t i = 0; i < n; ++i) tokens[i] = static_cast<Token>((past + i) * 37 % 512);
    const auto logits = loaded.step({{.seq = seq, .past = past, .tokens = tokens, .parents = {}}});
    for (uint32_t t = 0; t < n; ++t) {
      SCOPED_TRACE(past + t);
      const Vector expected = twin.logits(tokens[t]);
      ASSERT_NO_FATAL_FAILURE(expect_near(logits.data() + t * expected.size(), expected));
    }
    past += n;
  }
}

TEST(Bct, GivesTheLogitsOfItsDefinition) {
  const tools::Spec spec = bct_spec();
  const auto tensors = tools::tensors_of(spec);
  base::ThreadPool pool(1);
  expect_as_twin(write_model(spec, pool, false), Twin(spec, tensors));
  expect_as_twin(write("bct.gguf", spec, tensors), Twin(spec, tensors));
}

TEST(Bct, StartsFromZerosAndStepsByOneWithoutTheTensorsThatSayOtherwise) {
  const tools::Spec spec = bct_spec();
  const auto tensors = without(without(tools::tensors_of(spec), "memory_init"), "memory_step");
  expect_as_twin(write("bare.gguf", spec, tensors), Twin(spec, tensors));
}

TEST(Bct, LeavesOfItsMemoryWhatTheGatesSay) {
  const tools::Spec spec = bct_spec();
  const auto tensors = with_gates(spec);
  expect_as_twin(write("gated.gguf", spec, tensors, {.update = "gated"}), Twin(spec, tensors));
  const auto bare = without(tensors, "memory_step");
  expect_as_twin(write("gates_only.gguf", spec, bare, {.update = "gated"}), Twin(spec, bare));
}

TEST(Bct, WritesATokenWhereTheOneBeforeItPointsToo) {
  const tools::Spec spec = bct_spec();
  const auto tensors = with_before(spec, with_gates(spec));
  expect_as_twin(write("before.gguf", spec, tensors, {.update = "gated"}), Twin(spec, tensors));
}

TEST(Bct, BringsWhatAHeadReadsToOneSize) {
  const tools::Spec spec = bct_spec();
  const auto tensors = with_before(spec, with_gates(spec));
  expect_as_twin(write("normed.gguf", spec, tensors, {.update = "gated", .read = "normed"}),
                 Twin(spec, tensors, /*normed=*/true));
}

// A tree 0 -> 1 -> 3, 0 -> 2 -> 4, of which the path 0, 2, 4 is kept, in a batch with another
// sequence.
TEST(Bct, ATokenOfATreeFollowsItsParentAndTheNextStepWhatWasKept) {
  const tools::Spec spec = bct_spec();
  const auto tensors = with_before(spec, with_gates(spec));
  Loaded loaded(write("tree.gguf", spec, tensors, {.update = "gated"}));
  const kv::SeqId other = loaded.store->open({}).seq, seq = loaded.store->open({}).seq;
  const std::vector<Token> first = {5, 6, 7}, aside = {9}, tree = {11, 12, 13, 14, 15}, last = {21};
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 2};
  const kv::Kept read = {.rows = {{0, 1}, {0, 1, 2}}}, path = {.rows = {{0}, {0, 2, 4}}};
  (void)loaded.step({{.seq = other, .past = 0, .tokens = first, .parents = {}},
                     {.seq = seq, .past = 0, .tokens = first, .parents = {}}},
                    &read);
  const auto drafted = loaded.step({{.seq = other, .past = 2, .tokens = aside, .parents = {}},
                                    {.seq = seq, .past = 3, .tokens = tree, .parents = parents}},
                                   &path);
  const auto next = loaded.step({{.seq = seq, .past = 6, .tokens = last, .parents = {}}});
  const auto expect = [&](const std::vector<Token>& tokens, const float* logits) {
    Twin twin(spec, tensors);
    Vector expected;
    for (const Token token : tokens) expected = twin.logits(token);
    expect_near(logits, expected);
  };
  const size_t vocab = loaded.model->config().vocab;
  expect({5, 6, 9}, drafted.data());
  expect({5, 6, 7, 11, 12, 14}, drafted.data() + 4 * vocab);
  expect({5, 6, 7, 11, 13, 15}, drafted.data() + 5 * vocab);
  expect({5, 6, 7, 11, 13, 15, 21}, next.data());
}

TEST(Bct, CountsItsKeysAsMemoryThatAttentionReads) {
  const tools::Spec spec = bct_spec();
  base::ThreadPool pool(1);
  const auto model =
      load_model(write_model(spec, pool, false), pool, kernels::table(base::Isa::kScalar));
  // Keys are packed in panels of 16 slots.
  EXPECT_EQ(model->weights().key_bytes, uint64_t{2} * 2 * 32 * 32 * sizeof(float));
  EXPECT_EQ(model->weight_bytes(), model->weights().layers.bytes + model->weights().output.bytes +
                                       model->weights().key_bytes);
  EXPECT_EQ(model->trained_slots()->slots, 24u);
}

TEST(Bct, SaysWhatIsWrongWithAFile) {
  const tools::Spec spec = bct_spec();
  const auto tensors = tools::tensors_of(spec);
  EXPECT_EQ(load_error(write("a.gguf", spec, without(tensors, "blk.1.memory_keys"))),
            ": tensor blk.1.memory_keys.weight is missing; the file is incomplete or of another "
            "architecture");
  EXPECT_EQ(load_error(write("b.gguf", spec, without(tensors, "blk.1.memory_init"))),
            ": tensor blk.1.memory_init.weight is missing; the file is incomplete or of another "
            "architecture");
  EXPECT_EQ(load_error(write("c.gguf", spec, tensors, {.slots = 25})),
            ": tensor blk.0.memory_keys.weight is [48, 32], but the metadata asks for [50, 32]");
  EXPECT_EQ(load_error(write("d.gguf", spec, tensors, {.slots = 1 << 21})),
            ": bct.memory.slots is 2097152, outside 1 to 1048576");
  EXPECT_EQ(load_error(write("e.gguf", spec, tensors, {.rotates = true})),
            ": bct.rope.dimension_count is 32, but bct has no rotary embedding");
  EXPECT_EQ(load_error(write("g.gguf", spec, tensors, {.update = "delta"})),
            ": bct.memory.update is delta; kvick has plain, step and gated");
  EXPECT_EQ(load_error(write("k.gguf", spec, tensors, {.read = "mean"})),
            ": bct.memory.read is mean; kvick has plain and normed");
  EXPECT_EQ(
      load_error(write("j.gguf", spec, without(with_before(spec, tensors), "blk.1.memory_b"))),
      ": tensor blk.1.memory_before.weight is missing; the file is incomplete or of another "
      "architecture");
  EXPECT_EQ(load_error(write("h.gguf", spec, without(with_gates(spec), "blk.1.memory_gate"),
                             {.update = "gated"})),
            ": tensor blk.1.memory_gate.weight is missing; the file is incomplete or of another "
            "architecture");
  EXPECT_EQ(load_error(write("i.gguf", spec, with_gates(spec), {.update = "step"})),
            ": tensor blk.0.memory_gate.weight is there, but bct.memory.update does not say gated");
  auto quantised = tensors;
  for (tools::TensorInfo& tensor : quantised)
    if (tensor.name == "blk.0.memory_keys.weight") tensor.type = kernels::DType::kQ8_0;
  EXPECT_EQ(load_error(write("f.gguf", spec, quantised)),
            ": tensor blk.0.memory_keys.weight is Q8_0; kvick takes F32, F16 or BF16 here");
}

}  // namespace
}  // namespace kvick::model
