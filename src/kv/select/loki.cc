// Loki: rows are chosen by the first d components of queries and keys in the basis of the keys'
// principal components, which is found on a text beforehand ("Loki: Low-Rank Keys for Efficient
// Sparse Attention", Singhania et al. 2024, algorithm 1). A query's weights are the softmax of
// those scores; queries that share a view have theirs summed. The basis is orthogonal, so that
// exact attention needs no keys in it: rows stay as they are, and their first components lie beside
// them.

#include "kv/select/predictor.h"
#include "kv/select/row_arithmetic.h"
#include "kv/select/select_store.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    recent_option(),
    dense_layers_option(),
    {.name = "file", .summary = "the components, which kvick train pca finds", .fallback = ""},
    {.name = "d",
     .summary =
         "components that choose; 0: as many as the file has, or a quarter of a key's values",
     .fallback = "0"},
    least_option(),
    loss_option()};
constexpr uint32_t kBlockRows = 256;  // of one block of summaries
constexpr kernels::DType kType = kernels::DType::kF16;

class Loki final : public Selector {
 public:
  // components: null to count bytes only.
  Loki(const Setup& setup, const Selection& selection, uint32_t rank)
      : Selector(selection),
        kernels_(kernels_of(setup)),
        components_(setup.select.predictor),
        head_dim_(setup.shape.head_dim),
        block_(setup.shape.hadamard_blocks().k),
        rank_(rank) {}

  SummaryShape summary() const override {
    return {.rows = kBlockRows, .bytes = kBlockRows * row_bytes()};
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    std::vector<float> key(head_dim_), low(rank_);
    for_each_row(rows.segment, first, end, [&](uint32_t row, const std::byte* k, const std::byte*) {
      read_key(rows.segment, k, key);
      transform(kernels_, block_, key);
      low_rank(basis(components_->layers[rows.layer].k, rows.head), key, low);
      kernels_.store_row(kType, low.data(), rank_,
                         rows.summary(row / kBlockRows) + row % kBlockRows * row_bytes());
    });
  }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const TopRows& top_rows = question.top_rows;
    const uint32_t rows = top_rows.last - top_rows.first;
    const std::span<float> weights = scratch.make<float>(rows), scores = scratch.make<float>(rows);
    const std::span<float> low = scratch.make<float>(rank_);
    std::fill(weights.begin(), weights.end(), 0.0F);
    const PredictorLayer& layer = components_->layers[question.rows.layer];
    for (size_t i = 0; i < question.queries.size(); ++i) {
      const size_t head = question.rows.head * size_t{question.group} + i % question.group;
      low_rank(basis(layer.q, head), {question.queries[i], head_dim_}, low);
      score(question, low, scores);
      const float sum = kernels_.exp_row(scores.data(), rows, 1);
      kernels_.axpy(weights.data(), 1 / sum, scores.data(), rows);
    }
    const auto heaviest = highest(kernels_, weights, top_rows.take, scratch);
    const std::span<uint32_t> chosen = scratch.make<uint32_t>(top_rows.take);
    for (uint32_t i = 0; i < chosen.size(); ++i) chosen[i] = top_rows.first + heaviest[i];
    choice.rows = chosen;
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    return (top_rows.last - top_rows.first) * row_bytes();
  }

 private:
  size_t row_bytes() const { return kernels::dtype_bytes(kType, rank_); }
  // The components of one head, the largest first: [rank of the file][head_dim].
  const float* basis(const std::vector<float>& of_layer, size_t head) const {
    return of_layer.data() + head * components_->shape.rank * head_dim_;
  }
  void low_rank(const float* basis, std::span<const float> from, std::span<float> low) const {
    for (uint32_t r = 0; r < rank_; ++r)
      low[r] = kernels_.dot(from.data(), basis + size_t{r} * head_dim_, head_dim_);
  }
  void score(const SelectRequest& question, std::span<const float> low,
             std::span<float> scores) const {
    for (uint32_t at = question.top_rows.first; at < question.top_rows.last;) {
      const uint32_t block = at / kBlockRows;
      const uint32_t n = std::min(question.top_rows.last, (block + 1) * kBlockRows) - at;
      kernels_.dot_rows(kType, question.rows.summary(block) + at % kBlockRows * row_bytes(),
                        row_bytes(), n, low.data(), rank_,
                        scores.data() + (at - question.top_rows.first));
      at += n;
    }
  }

  const kernels::Table& kernels_;
  std::shared_ptr<const Predictor> components_;
  uint32_t head_dim_;
  uint32_t block_;  // of the keys' Hadamard transform, 0: none
  uint32_t rank_;
};

struct Asked {
  Selection selection;
  uint32_t rank = 0;
};

base::Result<Asked> read_options(const Setup& setup) {
  Asked asked;
  const Spec& spec = setup.select.spec;
  KVICK_TRY(asked.selection, read_selection(spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(spec, asked.selection));
  const uint32_t head_dim = setup.shape.head_dim;
  KVICK_TRY(const uint64_t rank, read_number(spec, kOptions[5], 0, head_dim));
  const uint32_t found = setup.select.predictor != nullptr ? setup.select.predictor->shape.rank
                                                           : std::max(1u, head_dim / 4);
  asked.rank = rank != 0 ? static_cast<uint32_t>(rank) : found;
  if (setup.select.predictor != nullptr && asked.rank > found)
    return base::fail("loki: d is {}, but the file has {} components of each key", rank, found);
  return asked;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Layout& layout) {
  KVICK_TRY(const Asked asked, read_options(setup));
  if (setup.select.predictor == nullptr)
    return base::fail(
        "loki needs the components of keys: file=NAME.kvp, which kvick train pca makes");
  const PredictorShape& found = setup.select.predictor->shape;
  const Shape& shape = setup.shape;
  if (found.form != PredictorForm::kComponents)
    return base::fail("loki: the file is a predictor for {}: kvick train pca makes loki's",
                      found.has_queries() ? "maple" : "kvzap");
  if (found.layers != shape.layers || found.kv_heads != shape.kv_heads ||
      found.head_dim != shape.head_dim || found.group() != setup.select.group)
    return base::fail(
        "loki: the components are those of {} layers of {} KV heads of {} values, and this cache "
        "has {} of {} of {}",
        found.layers, found.kv_heads, found.head_dim, shape.layers, shape.kv_heads, shape.head_dim);
  return make_select_store(setup, layout,
                           std::make_unique<Loki>(setup, asked.selection, asked.rank));
}

base::Result<Cost> cost(const Setup& setup, const Layout& layout, const Load& load) {
  KVICK_TRY(const Asked asked, read_options(setup));
  return select_cost(setup, layout, Loki(setup, asked.selection, asked.rank), load);
}

}  // namespace

Policy loki_policy() {
  return {.name = "loki",
          .summary = "the rows that the keys' principal components score highest",
          .options = kOptions,
          .change_traits = selecting_traits,
          .make = make,
          .cost = cost};
}

}  // namespace kvick::kv
