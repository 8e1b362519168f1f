// Compares kvzip with its definition: of a document that was read whole, the rows with the lowest
// scores over all heads go, and no others.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "kv/rows/row_pool.h"
#include "kv/testing/shown_some.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kLayers = 3, kHeads = 2, kNumbers = kLayers * kHeads;
constexpr uint32_t kDocument = 200, kSinks = 2, kKept = 50;
constexpr const char* kPolicy = "kvzip:budget=0.25,least=1,sinks=2";
constexpr Shape kShape = {.layers = kLayers,
                          .kv_heads = kHeads,
                          .head_dim = 8,
                          .max_tokens = 1000,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

// A document and its scores. There are few different scores, so that many are equal.
std::shared_ptr<const Predictor> made_document() {
  auto made = std::make_shared<Predictor>(*made_predictor(kShape, PredictorForm::kDocument));
  made->shape.tokens = kDocument;
  made->document.clear();
  for (uint32_t i = 0; i < kDocument; ++i)
    made->document.push_back(static_cast<Token>(100 + i * i % 61));
  std::mt19937 random(3);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    made->layers[layer].k.resize(size_t{kHeads} * kDocument);
    // Heads differ in how high they score, so that they keep different numbers of rows.
    for (uint32_t i = 0; i < kHeads * kDocument; ++i)
      made->layers[layer].k[i] =
          static_cast<float>(random() % 16) * static_cast<float>(1 + layer + i / kDocument) / 64;
  }
  return made;
}

kv::Setup setup_of(const std::string& policy, uint64_t max_bytes = UINT64_MAX) {
  kv::Setup setup = test_setup(kShape, max_bytes);
  setup.select.spec = parse_spec(policy).value();
  setup.select.predictor = made_document();
  return setup;
}

// The document, and a question behind it.
std::vector<Token> text_of(size_t tokens) {
  std::vector<Token> text = made_document()->document;
  for (Token token = 900; text.size() < tokens; ++token) text.push_back(token);
  text.resize(tokens);
  return text;
}

// Returns the positions of the document's rows that each head keeps. The rows of all heads are
// sorted by score, then position, then head; the first of them are dropped.
std::vector<std::vector<uint32_t>> kept_of_document() {
  const auto document = made_document();
  struct Entry {
    float score = 0;
    uint32_t pos = 0, number = 0;
  };
  std::vector<Entry> all;
  for (uint32_t number = 0; number < kNumbers; ++number)
    for (uint32_t pos = kSinks; pos < kDocument; ++pos)
      all.push_back(
          {document->layers[number / kHeads].k[number % kHeads * kDocument + pos], pos, number});
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(a.score, a.pos, a.number) < std::tuple(b.score, b.pos, b.number);
  });
  all.erase(all.begin(), all.begin() + ptrdiff_t{kNumbers} * (kDocument - kKept));
  std::vector<std::vector<uint32_t>> heads(kNumbers, {0, 1});
  static_assert(kSinks == 2);
  for (const Entry& one : all) heads[one.number].push_back(one.pos);
  for (std::vector<uint32_t>& head : heads) std::sort(head.begin(), head.end());
  return heads;
}

// One sequence in a store, which reads a text.
class Player {
 public:
  explicit Player(const std::string& policy = kPolicy, uint64_t max_bytes = UINT64_MAX)
      : store_(std::move(make_store({"virtual", {}}, setup_of(policy, max_bytes))).value()),
        seq_(store_->open({}).seq) {}

  // Reads these tokens in one step and keeps all.
  void add(std::span<const Token> tokens) {
    std::vector<uint32_t> kept(tokens.size());
    std::iota(kept.begin(), kept.end(), 0U);
    run({.seq = seq_,
         .fresh = static_cast<uint32_t>(tokens.size()),
         .tokens = tokens,
         .whole = true},
        kept);
  }
  // Reads a tree of tokens and keeps those that `kept` names.
  void add_tree(std::span<const Token> tokens, const std::vector<uint32_t>& kept) {
    run({.seq = seq_, .fresh = static_cast<uint32_t>(tokens.size()), .tokens = tokens}, kept);
  }
  void add_untold(uint32_t fresh) {
    std::vector<uint32_t> kept(fresh);
    std::iota(kept.begin(), kept.end(), 0U);
    run({.seq = seq_, .fresh = fresh, .tokens = {}}, kept);
  }
  // Reads a text from the sequence's end on, `piece` tokens a step.
  void read(std::span<const Token> text, size_t piece) {
    while (rows_.size() < text.size())
      add(text.subspan(rows_.size(), std::min(piece, text.size() - rows_.size())));
  }
  void fork() { seq_ = store_->fork(seq_).value(); }

  // Returns the positions that each head shows, ascending.
  std::vector<std::vector<uint32_t>> shown() {
    const Slot slot = {.seq = seq_, .fresh = 1, .tokens = {}};
    const auto step = std::move(store_->begin({{&slot, 1}})).value();
    Rows rows = rows_;
    rows.push_back(last_row_ + 1);
    write_all(*step, kShape, {last_row_ + 1});
    std::vector<std::vector<uint32_t>> heads;
    base::Arena scratch;
    kernels::View view;
    for (uint32_t number = 0; number < kNumbers; ++number) {
      const Query query = query_of(0, number / kHeads, number % kHeads);
      step->view(query, scratch, view);
      Rows found = find_rows(view, kShape, rows, query);
      EXPECT_EQ(found.back(), rows_.size());
      found.pop_back();
      std::sort(found.begin(), found.end());
      heads.push_back(found);
    }
    return heads;
  }
  // Returns what each head should show: rows that are left of the document, and all behind it.
  std::vector<std::vector<uint32_t>> expected() const {
    std::vector<std::vector<uint32_t>> heads = kept_of_document();
    for (std::vector<uint32_t>& head : heads)
      for (uint32_t pos = kDocument; pos < rows_.size(); ++pos) head.push_back(pos);
    return heads;
  }
  std::vector<std::vector<uint32_t>> all() const {
    std::vector<uint32_t> head(rows_.size());
    std::iota(head.begin(), head.end(), 0U);
    return std::vector<std::vector<uint32_t>>(kNumbers, head);
  }
  Store& store() { return *store_; }
  std::string failure() { return store_->facets().health->failure(seq_); }
  // Returns why a step with this token more does not begin, or "".
  std::string refusal(Token token) {
    const Slot slot = {.seq = seq_, .fresh = 1, .tokens = {&token, 1}, .whole = true};
    const auto step = store_->begin({{&slot, 1}});
    return step.ok() ? "" : step.error().what;
  }

 private:
  void run(const Slot& slot, const std::vector<uint32_t>& kept) {
    auto begun = store_->begin({{&slot, 1}});
    ASSERT_TRUE(begun.ok()) << begun.error().what;
    const std::unique_ptr<Step> step = std::move(begun).value();
    Rows rows;
    for (uint32_t i = 0; i < slot.fresh; ++i) rows.push_back(++last_row_);
    write_all(*step, kShape, rows);
    step->commit({.rows = {kept}});
    for (const uint32_t row : kept) rows_.push_back(rows[row]);
  }

  std::unique_ptr<Store> store_;
  SeqId seq_;
  Rows rows_;  // by position
  Row last_row_ = 0;
};

uint64_t pool_bytes(uint32_t rows) {
  return RowPool::bytes_of(kShape, kNumbers, RowPool::blocks_of(kNumbers, rows));
}

TEST(Kvzip, DropsTheDocumentsRowsWithTheLowestScoresOfAllHeads) {
  const std::vector<Token> text = text_of(260);
  for (const size_t piece : {1, 7, 100, 150, 200, 230, 260}) {
    SCOPED_TRACE(piece);
    Player p;
    p.read(text, piece);
    ASSERT_EQ(p.shown(), p.expected());
    const std::vector<Token> more = {5, 6, 7};
    p.add_tree(more, {0, 2});
    EXPECT_EQ(p.shown(), p.expected());
  }
  const auto heads = kept_of_document();
  const auto [least, most] = std::minmax_element(
      heads.begin(), heads.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  EXPECT_GT(most->size(), least->size() + 20) << "heads keep different numbers of rows";
}

TEST(Kvzip, KeepsAllRowsUntilTheDocumentWasReadWhole) {
  const std::vector<Token> text = text_of(kDocument);
  Player p;
  p.read(std::span(text).first(kDocument - 1), 70);
  EXPECT_EQ(p.shown(), p.all());
  p.read(text, 1);
  EXPECT_EQ(p.shown(), p.expected());
  EXPECT_NE(p.expected(), p.all());
}

TEST(Kvzip, FollowsTheTokensThatATreeKeeps) {
  const std::vector<Token> text = text_of(kDocument + 1);
  const Token wrong = -1;
  // The document ends within a tree of which one branch is the document.
  Player p;
  p.read(std::span(text).first(kDocument - 2), 99);
  const std::vector<Token> tree = {text[kDocument - 2], wrong, text[kDocument - 1],
                                   text[kDocument]};
  p.add_tree(tree, {0});
  EXPECT_EQ(p.shown(), p.all());
  const std::vector<Token> rest = {text[kDocument - 1], wrong, text[kDocument]};
  p.add_tree(rest, {0, 2});
  EXPECT_EQ(p.shown(), p.expected());
  EXPECT_EQ(p.store().usage().allocated_bytes, pool_bytes(kKept + 2))
      << "the rows were moved to a pool for all three tokens";
  // A branch that is another text.
  Player other("kvzip:budget=0.25,least=1,sinks=2,other=keep");
  other.read(std::span(text).first(kDocument - 2), 99);
  other.add_tree(tree, {1, 2, 3});
  EXPECT_EQ(other.shown(), other.all());
}

TEST(Kvzip, AForkKeepsTheSameRowsAndTheSameBeginning) {
  const std::vector<Token> text = text_of(250);
  Player p;
  p.read(std::span(text).first(150), 150);
  p.fork();
  EXPECT_EQ(p.shown(), p.all());
  p.read(std::span(text).first(kDocument), 50);
  EXPECT_EQ(p.shown(), p.expected());
  p.fork();
  EXPECT_EQ(p.shown(), p.expected());
  p.read(text, 50);
  EXPECT_EQ(p.shown(), p.expected());
  Player other("kvzip:budget=0.25,least=1,sinks=2,other=keep");
  std::vector<Token> changed = text;
  changed[10] = -1;
  other.read(std::span<const Token>(changed).first(60), 60);
  other.fork();
  other.read(changed, 60);
  EXPECT_EQ(other.shown(), other.all());
}

TEST(Kvzip, NoticesAnotherText) {
  for (const uint32_t at : {0U, 17U, kDocument - 1}) {
    SCOPED_TRACE(at);
    std::vector<Token> text = text_of(kDocument + 20);
    text[at] = -1;
    Player p;
    p.read(std::span<const Token>(text).first(at), 10);
    EXPECT_EQ(p.failure(), "");
    p.add(std::span<const Token>(text).subspan(at, 5));
    EXPECT_EQ(p.failure(),
              fmt::format("the text does not begin with the document of kvzip's file (token {} of "
                          "200 differs): begin with that document, or add other=keep to keep all "
                          "rows of other texts",
                          at + 1));
    EXPECT_NE(p.refusal(1).find("other=keep"), std::string::npos);
    Player keeping("kvzip:budget=0.25,least=1,sinks=2,other=keep");
    keeping.read(text, 30);
    EXPECT_EQ(keeping.failure(), "");
    EXPECT_EQ(keeping.shown(), keeping.all());
  }
}

// What only measures gives no tokens: there the scores hold by position.
TEST(Kvzip, TakesTextsOfWhichNoTokenIsToldForTheDocument) {
  Player p;
  p.add_untold(150);
  p.add_untold(80);
  EXPECT_EQ(p.failure(), "");
  EXPECT_EQ(p.shown(), p.expected());
  // A text that begins like the document, but whose later steps give no tokens, is refused.
  const std::vector<Token> text = text_of(kDocument);
  Player half;
  half.read(std::span(text).first(150), 150);
  half.add_untold(1);
  EXPECT_NE(half.failure().find("token 151 of 200 differs"), std::string::npos) << half.failure();
  Player other_half;
  other_half.add_untold(150);
  other_half.add(std::span(text).subspan(150));
  EXPECT_NE(other_half.failure().find("token 151 of 200 differs"), std::string::npos);
}

TEST(Kvzip, GivesTheMemoryOfDroppedRowsBack) {
  const std::vector<Token> text = text_of(400);
  Player p;
  p.read(std::span(text).first(100), 100);
  EXPECT_EQ(p.store().usage().allocated_bytes, pool_bytes(kDocument - 1));
  p.read(std::span(text).first(kDocument), 100);
  EXPECT_EQ(p.store().usage().allocated_bytes, pool_bytes(kKept));
  EXPECT_EQ(p.store().usage().used_bytes, kKept * kShape.token_bytes());
  EXPECT_LT(pool_bytes(kKept), pool_bytes(kDocument - 1) / 2);
  p.read(text, 100);
  EXPECT_EQ(p.store().usage().allocated_bytes, pool_bytes(kKept + 200));
  EXPECT_EQ(p.store().usage().used_bytes, (kKept + 200) * kShape.token_bytes());
}

TEST(Kvzip, IsPlannedWithTheRowsThatAreLeftAndOneDocumentThatIsRead) {
  const auto bytes = [](const std::string& policy, const Load& load, bool file = true) {
    kv::Setup setup = setup_of(policy);
    if (!file) setup.select.predictor = nullptr;
    return cost_of({"virtual", {}}, setup, load).value().fast_bytes;
  };
  const auto more = [&](const std::string& policy, uint32_t tokens, bool file = true) {
    return bytes(policy, {.tokens = tokens, .sequences = 2}, file) -
           bytes(policy, {.tokens = tokens, .sequences = 1}, file);
  };
  EXPECT_EQ(more(kPolicy, 300), pool_bytes(kKept + 100));
  EXPECT_EQ(more(kPolicy, kDocument), pool_bytes(kKept));
  EXPECT_EQ(more(kPolicy, 100), pool_bytes(kDocument - 1));
  EXPECT_GT(bytes(kPolicy, {.tokens = 300}), pool_bytes(kDocument - 1) + pool_bytes(kKept));
  EXPECT_EQ(more("kvzip:budget=0.25,least=1,other=keep", 300), pool_bytes(300));
  // Without a file, as kvick plan counts.
  EXPECT_EQ(more("kvzip:budget=0.25,least=1,tokens=200", 300, false), pool_bytes(kKept + 100));
  EXPECT_EQ(more("kvzip:budget=0.25,least=1", 300, false), pool_bytes(300));
  // A store whose memory limit is the planned cost reads a document and a question.
  const std::vector<Token> text = text_of(300);
  for (const uint32_t step : {60U, 100U, 300U}) {
    SCOPED_TRACE(step);
    const Load load = {.tokens = 300, .step = step};
    Player p(kPolicy, bytes(kPolicy, load));
    p.read(text, step);
    EXPECT_EQ(p.shown(), p.expected());
  }
}

TEST(Kvzip, KeepsAllRowsWithABudgetOfAll) {
  Player p("kvzip:budget=1.0");
  p.read(text_of(230), 90);
  EXPECT_EQ(p.shown(), p.all());
}

TEST(Kvzip, SaysWhatItNeeds) {
  const auto refusal = [](const char* policy, std::shared_ptr<const Predictor> file,
                          uint32_t max_tokens = kShape.max_tokens) {
    kv::Setup setup = setup_of(policy);
    setup.select.predictor = std::move(file);
    setup.shape.max_tokens = max_tokens;
    return make_store({"virtual", {}}, setup).error().message;
  };
  EXPECT_EQ(refusal("kvzip", nullptr),
            "kvzip needs the scores of a document: file=NAME.kvp, which kvick train kvzip makes");
  EXPECT_EQ(refusal("kvzip:file=x", made_predictor(kShape, PredictorForm::kRetrieval)),
            "kvzip: the file is a predictor for another policy: kvick train kvzip makes kvzip's");
  Shape other = kShape;
  other.layers = 4;
  EXPECT_EQ(refusal("kvzip:file=x", made_predictor(other, PredictorForm::kDocument)),
            "kvzip: the file has scores of 4 layers of 2 KV heads, but this model has 3 and 2: "
            "make its own with kvick train kvzip");
  EXPECT_EQ(refusal("kvzip:file=x", made_document(), kDocument),
            "kvzip: the document has 200 tokens, so a context of 200 has no room behind it: give "
            "a larger --ctx");
  EXPECT_EQ(refusal("kvzip:file=x,tokens=7", made_document()),
            "kvzip: tokens=7, but the file's document has 200: leave tokens= out");
  const std::string other_text = refusal("kvzip:file=x,other=drop", made_document());
  EXPECT_EQ(other_text.rfind("kvzip: other='drop' is none of refuse, keep", 0), 0u) << other_text;
  EXPECT_EQ(refusal("duo:file=x", made_document()),
            "duo: the file is a predictor for another policy: kvick train duo makes duo's");
  EXPECT_EQ(refusal("maple:file=x", made_document()),
            "maple: the file is kvzip's: kvick train distil makes maple's");
  EXPECT_EQ(refusal("loki:file=x", made_document()),
            "loki: the file is kvzip's: kvick train pca makes loki's");
}

}  // namespace
}  // namespace kvick::kv::test
