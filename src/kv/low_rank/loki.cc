// Loki: chooses rows by the first d components of queries and keys in the basis of the keys'
// principal components, which are computed from a text beforehand ("Loki: Low-Rank Keys for
// Efficient Sparse Attention", Singhania et al. 2024, algorithm 1; low_rank_keys.h). Exact
// attention needs no keys in this basis, because it is orthogonal: rows stay as they are, and their
// first components are kept beside them.

#include "kv/low_rank/low_rank_keys.h"
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
    low_rank_candidates_option(),
    least_option(),
    loss_option()};

struct Asked {
  Selection selection;
  uint32_t rank = 0;
  Candidates candidates;
};

class Loki final : public Selector {
 public:
  // setup.select.predictor: may be null if only bytes are counted.
  Loki(const Setup& setup, const Asked& asked)
      : Selector(asked.selection),
        kernels_(kernels_of(setup)),
        components_(setup.select.predictor),
        head_dim_(setup.shape.head_dim),
        block_(setup.shape.hadamard_blocks().k),
        keys_(kernels_, asked.rank, kernels::DType::kF16, asked.candidates) {}

  SummaryShape summary() const override { return keys_.summary(); }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    std::vector<float> key(head_dim_), low(keys_.rank());
    for_each_row(rows.segment, first, end, [&](uint32_t row, const std::byte* k, const std::byte*) {
      read_key(rows.segment, k, key);
      transform(kernels_, block_, key);
      low_rank(basis(components_->layers[rows.layer].k, rows.head), key, low);
      keys_.put(rows, row, std::span<const float>(low));
    });
  }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const uint32_t rank = keys_.rank();
    const std::span<float> low = scratch.make<float>(question.queries.size() * rank);
    const PredictorLayer& layer = components_->layers[question.rows.layer];
    for (size_t i = 0; i < question.queries.size(); ++i) {
      const size_t head = question.rows.head * size_t{question.group} + i % question.group;
      low_rank(basis(layer.q, head), {question.queries[i], head_dim_}, low.subspan(i * rank, rank));
    }
    keys_.choose(question, low, scratch, choice);
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    return keys_.choice_bytes(top_rows);
  }

 private:
  // Returns the components of one head, largest first: [rank of the file][head_dim].
  const float* basis(const std::vector<float>& of_layer, size_t head) const {
    return of_layer.data() + head * components_->shape.rank * head_dim_;
  }
  void low_rank(const float* basis, std::span<const float> from, std::span<float> low) const {
    for (uint32_t r = 0; r < low.size(); ++r)
      low[r] = kernels_.dot(from.data(), basis + size_t{r} * head_dim_, head_dim_);
  }
  const kernels::Table& kernels_;
  std::shared_ptr<const Predictor> components_;
  uint32_t head_dim_;
  uint32_t block_;  // block size of the keys' Hadamard transform; 0: none
  LowRankKeys keys_;
};

base::Result<Asked> read_options(const Setup& setup) {
  Asked asked;
  const Spec& spec = setup.select.spec;
  KVICK_TRY(asked.selection, read_selection(spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(spec, asked.selection));
  KVICK_TRY(asked.candidates, read_candidates(spec, kOptions[6]));
  const uint32_t head_dim = setup.shape.head_dim;
  KVICK_TRY(const uint64_t rank, read_number(spec, kOptions[5], 0, head_dim));
  const uint32_t found = setup.select.predictor != nullptr ? setup.select.predictor->shape.rank
                                                           : std::max(1u, head_dim / 4);
  asked.rank = rank != 0 ? static_cast<uint32_t>(rank) : found;
  if (setup.select.predictor != nullptr && asked.rank > found)
    return base::fail(
        "loki: d is {}, but the file has {} components of each key: lower d or leave it out", rank,
        found);
  return asked;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Layout& layout) {
  KVICK_TRY(const Asked asked, read_options(setup));
  if (setup.select.predictor == nullptr)
    return base::fail(
        "loki needs the components of keys: file=NAME.kvp, which kvick train pca makes");
  const PredictorShape& found = setup.select.predictor->shape;
  const Shape& shape = setup.shape;
  if (found.form == PredictorForm::kRetrieval)
    return base::fail("loki: the file is duo's: kvick train pca makes loki's");
  if (found.form == PredictorForm::kDocument)
    return base::fail("loki: the file is kvzip's: kvick train pca makes loki's");
  if (found.form != PredictorForm::kComponents)
    return base::fail("loki: the file is a predictor for {}: kvick train pca makes loki's",
                      found.has_queries() ? "maple" : "kvzap");
  if (found.layers != shape.layers || found.kv_heads != shape.kv_heads ||
      found.head_dim != shape.head_dim || found.group() != setup.select.group)
    return base::fail(
        "loki: the components are for {} layers of {} KV heads of {} values and {} query heads for "
        "each, but this model has {}, {}, {} and {}: make its own with kvick train pca",
        found.layers, found.kv_heads, found.head_dim, found.group(), shape.layers, shape.kv_heads,
        shape.head_dim, setup.select.group);
  return make_select_store(setup, layout, std::make_unique<Loki>(setup, asked));
}

base::Result<Cost> cost(const Setup& setup, const Layout& layout, const Load& load) {
  KVICK_TRY(const Asked asked, read_options(setup));
  return select_cost(setup, layout, Loki(setup, asked), load);
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
