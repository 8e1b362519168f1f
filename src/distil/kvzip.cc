#include "distil/kvzip.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <memory>

#include "engine/options/layer_options.h"

namespace kvick::distil {
namespace {

using base::fail;
using base::Result;
using Tokens = std::vector<engine::Token>;

constexpr uint32_t kPiece = 512;   // tokens of the document that are read in one step
constexpr uint32_t kLeast = 16;    // tokens of a document
constexpr uint32_t kBefore = 8;    // tokens before a chunk that its question names
constexpr uint32_t kTogether = 8;  // queries for which a key is read once
constexpr float kUnused = 0.01F;

// The paper's questions.
constexpr const char* kRepeatAll = "Repeat the previous context exactly.";
constexpr const char* kRepeatFrom =
    "Repeat the part of the previous context exactly, starting with {}";

// What may follow a document. Tokens that are the same behind it, whichever follows, stay the same
// behind most other texts too.
constexpr const char* kFollowing[] = {"", "\n", "\n\nWhat does it say?", " And", "s", "."};

size_t common(std::span<const engine::Token> a, std::span<const engine::Token> b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(ends.first - a.begin());
}

// Returns the tokens of a prompt: the text, then `more`, then `request`. If the text is the system
// message, `request` is the user's message.
Result<Tokens> prompt_of(const engine::Engine& engine, const std::string& text, Stands stands,
                         const std::string& more, const std::string& request) {
  auto messages = nlohmann::ordered_json::array();
  switch (stands) {
    case Stands::kRaw:
      return engine.tokenizer().encode(text + more + request, true, true);
    case Stands::kSystem:
      messages.push_back({{"role", "system"}, {"content", text + more}});
      messages.push_back({{"role", "user"}, {"content", request}});
      return engine.chat_tokens(messages);
    case Stands::kUser:
      messages.push_back({{"role", "user"}, {"content", text + more + request}});
      return engine.chat_tokens(messages);
  }
  return fail("a document stands nowhere");
}

// Passes all calls on to another step, and raises the scores of a document's rows by its queries.
class RepeatStep final : public kv::Step, kv::InputReader {
 public:
  RepeatStep(kv::Step& inner, engine::Engine& engine, uint32_t past, uint32_t fresh,
             std::vector<std::vector<float>>& most)
      : inner_(inner),
        engine_(engine),
        heads_(engine.model().config().layers.front()),
        past_(past),
        fresh_(fresh),
        most_(most),
        q_(size_t{fresh} * heads_.q_floats()),
        k_((size_t{past} + fresh) * heads_.k_floats()) {}

  kv::StepFacets facets() override { return {.inputs = this, .per_query = true}; }
  void inputs(uint32_t layer, const float*, std::span<const uint32_t>) override {
    if (layer > 0) raise(layer - 1);
  }
  void write(uint32_t layer, const float* k, const float* v) override {
    std::copy_n(k, size_t{fresh_} * heads_.k_floats(), &k_[size_t{past_} * heads_.k_floats()]);
    inner_.write(layer, k, v);
  }
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override {
    inner_.view(query, scratch, out);
    const size_t floats = size_t{heads_.group()} * heads_.k_dim;
    for (uint32_t t = 0; t < fresh_; ++t)
      std::copy_n(query.q + size_t{t} * query.q_stride, floats,
                  &q_[size_t{t} * heads_.q_floats() + query.head * floats]);
    float* to = &k_[size_t{query.head} * heads_.k_dim];
    for (const kernels::Segment& segment : out.past.span())
      for (const kernels::Run& run : segment.runs)
        for (uint32_t row = run.row; row < run.row + run.rows; ++row, to += heads_.k_floats())
          kernels::to_f32(segment.k_type, segment.k + size_t{row} * segment.k_stride, heads_.k_dim,
                          to);
  }
  void commit(const kv::Kept& kept) override { inner_.commit(kept); }

  void finish() { raise(engine_.model().config().layer_count() - 1); }

 private:
  void raise(uint32_t layer) {
    raise_to_shares({.past = past_, .fresh = fresh_, .q = q_.data(), .k = k_.data()}, heads_,
                    engine_.kernels(), engine_.pool(), most_[layer]);
  }

  kv::Step& inner_;
  engine::Engine& engine_;
  const model::LayerConfig& heads_;  // of every layer: they are alike
  uint32_t past_, fresh_;
  std::vector<std::vector<float>>& most_;  // [layers]: [kv_heads][past]
  std::vector<float> q_, k_;               // of one layer
};

// A question and its answer: some of the document's tokens.
struct Repetition {
  Tokens tokens;
  uint32_t chunk = 0;  // of them, the answer's
};

Result<std::vector<Repetition>> repetitions_of(const engine::Engine& engine,
                                               const Document& document, uint32_t chunk) {
  std::vector<Repetition> all;
  const std::span<const engine::Token> tokens = document.tokens;
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    std::string request = kRepeatAll;
    if (first > 0) {
      const auto before = tokens.subspan(first - std::min<size_t>(first, kBefore),
                                         std::min<size_t>(first, kBefore));
      request = fmt::format(kRepeatFrom, engine.tokenizer().decode({before.begin(), before.end()}));
    }
    KVICK_TRY(Tokens asked, document.ask(request));
    const auto answer = tokens.subspan(first, std::min<size_t>(chunk, tokens.size() - first));
    asked.insert(asked.end(), answer.begin(), answer.end());
    all.push_back({.tokens = std::move(asked), .chunk = static_cast<uint32_t>(answer.size())});
  }
  return all;
}

base::Status<> check_model(const engine::Engine& engine) {
  const model::Config& config = engine.model().config();
  if (engine.model().trained_slots() != nullptr)
    return fail("a model with a memory of slots keeps no rows that could be dropped");
  if (engine::layers_differ(config))
    return fail("kvzip needs layers that are all alike, and this model's differ");
  const model::LayerConfig& layer = config.layers.front();
  if (layer.is_latent() || (layer.window != 0 && layer.window < config.context) || layer.sinks ||
      layer.both_ways)
    return fail(
        "kvzip needs layers that keep a row for each token and KV head and attend to all rows "
        "alone; this model's do not");
  return base::Done{};
}

base::Status<> check_room(const engine::Engine& engine, size_t document, uint32_t chunk,
                          size_t longest) {
  const uint32_t context = engine.model().config().context;
  if (document + longest <= context) return base::Done{};
  const size_t question = longest - std::min<size_t>(chunk, document);
  return fail(
      "the document has {} tokens, and a question with {} of them behind it has {}: the model's "
      "context of {} is too short: give {}",
      document, longest - question, longest, context,
      document + question + 1 <= context ? fmt::format("--chunk {}", context - document - question)
                                         : "a shorter document");
}

base::Status<> read_document(model::Executor& executor, kv::Store& store, kv::SeqId seq,
                             std::span<const engine::Token> tokens,
                             const std::function<void(uint64_t)>& progress) {
  for (size_t past = 0; past < tokens.size();) {
    const auto piece = tokens.subspan(past, std::min<size_t>(kPiece, tokens.size() - past));
    const model::Slot slot = {
        .seq = seq, .past = static_cast<uint32_t>(past), .tokens = piece, .parents = {}};
    const auto done = executor.advance(store, {.slots = {&slot, 1}}, {});
    if (!done.ok()) return fail("no room for the document: {}", done.error().what);
    past += piece.size();
    progress(past);
  }
  return base::Done{};
}

// most: [layers][kv_heads * tokens].
Result<DocumentScores> scores_of(const model::Config& config, const Document& document,
                                 const std::vector<std::vector<float>>& most) {
  DocumentScores made = {.predictor = {}, .tokens = document.tokens.size()};
  made.predictor.shape = shape_of(config, kv::PredictorForm::kDocument, 1);
  made.predictor.shape.tokens = static_cast<uint32_t>(document.tokens.size());
  made.predictor.document = document.tokens;
  uint64_t unused = 0, all = 0;
  for (size_t layer = 0; layer < most.size(); ++layer) {
    if (!std::all_of(most[layer].begin(), most[layer].end(),
                     [](float x) { return std::isfinite(x); }))
      return fail("layer {} computes numbers that are not finite: nothing can be measured on it",
                  layer);
    kv::PredictorLayer& scores = made.predictor.layers.emplace_back();
    // A share that is rounded up may exceed 1.
    for (const float x : most[layer]) scores.k.push_back(std::min(x, 1.0F));
    all += scores.k.size();
    unused += static_cast<uint64_t>(
        std::count_if(scores.k.begin(), scores.k.end(), [](float x) { return x < kUnused; }));
  }
  made.unused = static_cast<double>(unused) / static_cast<double>(all);
  return made;
}

}  // namespace

Result<Document> document_of(const engine::Engine& engine, const std::string& given,
                             Stands stands) {
  // Files end with a line break that prompts often lack.
  const std::string text = given.substr(0, given.find_last_not_of(" \t\r\n") + 1);
  KVICK_TRY(Tokens tokens, prompt_of(engine, text, stands, kFollowing[0], kRepeatAll));
  for (const char* const more : kFollowing) {
    KVICK_TRY(const Tokens other, prompt_of(engine, text, stands, more, "What is it about?"));
    tokens.resize(common(tokens, other));
  }
  if (tokens.size() < kLeast)
    return fail("the document has {} tokens, but dropping rows needs at least {}", tokens.size(),
                kLeast);
  Document made = {.tokens = tokens, .ask = {}};
  made.ask = [&engine, text, stands,
              before = std::move(tokens)](const std::string& request) -> Result<Tokens> {
    // Behind a prompt without a template an empty line separates the question and the answer.
    const bool raw = stands == Stands::kRaw;
    KVICK_TRY(const Tokens all,
              prompt_of(engine, text, stands, stands == Stands::kSystem ? "" : "\n\n",
                        raw ? request + "\n\n" : request));
    const size_t first = common(all, before);
    return Tokens(all.begin() + static_cast<ptrdiff_t>(first), all.end());
  };
  return made;
}

void raise_to_shares(const FreshQueries& layer, const model::LayerConfig& heads,
                     const kernels::Table& kernels, base::ThreadPool& pool, std::span<float> most) {
  const uint32_t group = heads.group(), dim = heads.k_dim, kv_heads = heads.kv_heads;
  const uint32_t queries = layer.fresh * group;  // of a KV head
  const float scale = score_scale(heads.scale, dim);
  // Several threads share a KV head if there are more threads than KV heads.
  const uint32_t parts = std::max(1U, (pool.size() + kv_heads - 1) / kv_heads);
  std::vector<float> found(size_t{kv_heads} * parts * layer.past);
  pool.parallel_for(size_t{kv_heads} * parts, 1, [&](size_t begin, size_t end, unsigned) {
    std::vector<float> scores(size_t{kTogether} * (layer.past + layer.fresh));
    for (size_t item = begin; item < end; ++item) {
      const size_t head = item / parts;
      float* const best = found.data() + item * layer.past;
      const auto first = static_cast<uint32_t>(uint64_t{queries} * (item % parts) / parts);
      const auto last = static_cast<uint32_t>(uint64_t{queries} * (item % parts + 1) / parts);
      const auto query = [&](uint32_t i) {
        return layer.q + size_t{i / group} * heads.q_floats() + (head * group + i % group) * dim;
      };
      for (uint32_t at = first; at < last; at += kTogether) {
        const uint32_t some = std::min(kTogether, last - at);
        const uint32_t rows = layer.past + (at + some - 1) / group + 1;  // that the last one sees
        for (uint32_t row = 0; row < rows; ++row) {
          const float* const key = layer.k + size_t{row} * heads.k_floats() + head * dim;
          for (uint32_t i = 0; i < some; ++i)
            scores[size_t{i} * rows + row] = scale * kernels.dot(query(at + i), key, dim);
        }
        for (uint32_t i = 0; i < some; ++i) {
          float* const of = &scores[size_t{i} * rows];
          const uint32_t seen = layer.past + (at + i) / group + 1;
          if (heads.softcap != 0)
            for (uint32_t row = 0; row < seen; ++row)
              of[row] = heads.softcap * std::tanh(of[row] / heads.softcap);
          const float sum = kernels.exp_row(of, seen, 1);
          if (!std::isfinite(sum))
            std::fill_n(best, layer.past, std::numeric_limits<float>::infinity());
          else
            for (uint32_t row = 0; row < layer.past; ++row)
              best[row] = std::max(best[row], of[row] / sum);
        }
      }
    }
  });
  for (size_t item = 0; item < size_t{kv_heads} * parts; ++item)
    for (uint32_t row = 0; row < layer.past; ++row) {
      float& to = most[item / parts * layer.past + row];
      to = std::max(to, found[item * layer.past + row]);
    }
}

Result<DocumentScores> score_document(engine::Engine& engine, const Document& document,
                                      const KvzipOptions& options) {
  KVICK_TRY_VOID(check_model(engine));
  if (options.chunk == 0) return fail("chunks of 0 tokens repeat nothing: give --chunk 1 or more");
  KVICK_TRY(const std::vector<Repetition> all, repetitions_of(engine, document, options.chunk));
  size_t longest = 0;
  uint64_t total = document.tokens.size();
  for (const Repetition& one : all) {
    longest = std::max(longest, one.tokens.size());
    total += one.tokens.size();
  }
  const size_t past = document.tokens.size();
  KVICK_TRY_VOID(check_room(engine, past, options.chunk, longest));
  const auto progress = [&](uint64_t done) {
    if (options.progress) options.progress(done, total);
  };
  engine::KvOptions kv;
  kv.k_type = kv.v_type = kernels::DType::kF16;
  kv.max_tokens = static_cast<uint32_t>(past + longest);
  KVICK_TRY(const std::unique_ptr<kv::Store> store, engine.make_store(kv));
  model::Executor executor = engine.make_executor();
  const kv::SeqId seq = store->open({}).seq;
  KVICK_TRY_VOID(read_document(executor, *store, seq, document.tokens, progress));
  const model::Config& config = engine.model().config();
  std::vector<std::vector<float>> most(config.layer_count(),
                                       std::vector<float>(past * config.layers.front().kv_heads));
  uint64_t done = past;
  for (const Repetition& one : all) {
    const model::Slot slot = {
        .seq = seq, .past = static_cast<uint32_t>(past), .tokens = one.tokens, .parents = {}};
    auto step = executor.begin(*store, {.slots = {&slot, 1}});
    if (!step.ok())
      return fail("no room for {} tokens behind the document: {}", one.tokens.size(),
                  step.error().what);
    RepeatStep repeat(step->rows(), engine, static_cast<uint32_t>(past),
                      static_cast<uint32_t>(one.tokens.size()), most);
    step->forward({}, repeat);
    repeat.finish();
    // The step is dropped, so that the next one begins behind the document too.
    progress(done += one.tokens.size());
  }
  KVICK_TRY(DocumentScores made, scores_of(config, document, most));
  made.chunks = static_cast<uint32_t>(all.size());
  return made;
}

engine::PredictorFile file_of(const DocumentScores& made, const engine::ModelIdentity& model,
                              const std::string& text) {
  return {.model = model,
          .predictor = made.predictor,
          .text = text,
          .tokens = static_cast<uint32_t>(made.tokens),
          .held_out = 0,
          .mse = {},
          .recall = {},
          .mass = {}};
}

}  // namespace kvick::distil
