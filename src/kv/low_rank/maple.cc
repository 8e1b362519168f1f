// MAPLE: chooses rows by the products of low-rank queries and keys, then reads the chosen rows
// exactly. A predictor that was distilled from the model makes these queries and keys (predictor.h,
// low_rank_keys.h; "MAPLE: Memory-Aware Predict and Load for Efficient LLM Inference", sections 3.1
// and 3.2, algorithm 1). docs/adr/0018-predicting-which-rows-are-read.md.

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
    {.name = "file", .summary = "the predictor, which kvick train distil makes", .fallback = ""},
    {.name = "type", .summary = "type of the low-rank keys: int8 or f16", .fallback = "int8"},
    {.name = "form",
     .summary = "what the predictor predicts from: heads, trained or random, as --form of kvick "
                "train distil",
     .fallback = "heads"},
    {.name = "rank",
     .summary =
         "values of a low-rank key; only to plan without a model, otherwise the file says it",
     .fallback = "0"},
    low_rank_candidates_option(),
    least_option(),
    loss_option()};

struct Asked {
  Selection selection;
  PredictorForm form{};
  uint32_t rank = 0;
  kernels::DType type{};  // of low-rank keys
  Candidates candidates;
};

class Maple final : public Selector {
 public:
  // setup.select.predictor: may be null if only bytes are counted.
  Maple(const Setup& setup, const Asked& asked)
      : Selector(asked.selection),
        kernels_(kernels_of(setup)),
        pool_(setup.compute.pool),
        predictor_(setup.select.predictor),
        head_dim_(setup.shape.head_dim),
        block_(setup.shape.hadamard_blocks().k),
        form_(asked.form),
        keys_(kernels_, asked.rank, asked.type, asked.candidates) {}

  SummaryShape summary() const override { return keys_.summary(); }

  bool has_side_rows() const override { return form_ != PredictorForm::kHeads; }
  // [heads][rank].
  size_t predicted_floats() const override {
    return predictor_ == nullptr ? 0 : size_t{predictor_->shape.heads} * keys_.rank();
  }

  void project(const LayerInputs& inputs, std::byte* side, float* predicted) const override {
    const PredictorShape& shape = predictor_->shape;
    const auto work = [&](size_t begin, size_t end, unsigned) {
      std::vector<float> memory(2 * size_t{shape.projected()}), turn(shape.rank);
      float* const low = memory.data() + shape.projected();
      for (size_t t = begin; t < end; ++t) {
        const float* from = predictor_->projected(inputs.x + t * shape.dim, memory.data());
        predictor_->turns(inputs.positions[t], turn.data());
        predictor_->keys(inputs.layer, from, kernels_, low);
        predictor_->turn(turn.data(), shape.kv_heads, kernels_, low);
        kernels_.store_row(keys_.type(), low, shape.projected(),
                           side + t * shape.kv_heads * keys_.row_bytes());
        float* const queries = predicted + t * predicted_floats();
        for (uint32_t head = 0; head < shape.heads; ++head)
          predictor_->query(inputs.layer, head, from, kernels_,
                            queries + size_t{head} * keys_.rank());
        predictor_->turn(turn.data(), shape.heads, kernels_, queries);
      }
    };
    const size_t tokens = inputs.positions.size();
    if (pool_ == nullptr)
      work(0, tokens, 0);
    else
      pool_->parallel_for(tokens, 1, work);
  }

  void keep(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> side) const override {
    keys_.put(rows, row, side);
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    std::vector<float> key(head_dim_), low(keys_.rank());
    for_each_row(rows.segment, first, end, [&](uint32_t row, const std::byte* k, const std::byte*) {
      read_key(rows.segment, k, key);
      transform(kernels_, block_, key);
      predictor_->key(rows.layer, rows.head, key.data(), kernels_, low.data());
      keys_.put(rows, row, std::span<const float>(low));
    });
  }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const uint32_t rank = keys_.rank();
    const std::span<float> low = scratch.make<float>(question.queries.size() * rank);
    for (size_t i = 0; i < question.queries.size(); ++i)
      low_rank_query(question, i, low.subspan(i * rank, rank));
    keys_.choose(question, low, scratch, choice);
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    return keys_.choice_bytes(top_rows);
  }

 private:
  void low_rank_query(const SelectRequest& question, size_t i, std::span<float> out) const {
    const PredictorShape& shape = predictor_->shape;
    const size_t head = question.rows.head * size_t{shape.group()} + i % shape.group();
    if (shape.from_input())
      std::copy_n(question.predicted + (i / shape.group() * shape.heads + head) * keys_.rank(),
                  out.size(), out.data());
    else
      predictor_->query(question.rows.layer, static_cast<uint32_t>(head), question.queries[i],
                        kernels_, out.data());
  }

  const kernels::Table& kernels_;
  base::ThreadPool* pool_;
  std::shared_ptr<const Predictor> predictor_;
  uint32_t head_dim_;
  uint32_t block_;  // block size of the keys' Hadamard transform; 0: none
  PredictorForm form_;
  LowRankKeys keys_;
};

constexpr std::string_view kForms[] = {"random", "trained", "heads"};  // PredictorForm

base::Result<PredictorForm> read_form(const Spec& spec) {
  KVICK_TRY(const size_t form, read_choice(spec, kOptions[6], {kForms[0], kForms[1], kForms[2]}));
  return static_cast<PredictorForm>(form);
}

// Without a predictor, as when only bytes are counted, the rank is the option's, or the default of
// kvick train distil.
base::Result<Asked> read_options(const Setup& setup) {
  Asked asked;
  const Spec& spec = setup.select.spec;
  KVICK_TRY(asked.selection, read_selection(spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(spec, asked.selection));
  KVICK_TRY(const size_t type, read_choice(spec, kOptions[5], {"int8", "f16"}));
  asked.type = type == 0 ? kernels::DType::kStatic8 : kernels::DType::kF16;
  KVICK_TRY(asked.form, read_form(spec));
  KVICK_TRY(asked.candidates, read_candidates(spec, kOptions[8]));
  const uint32_t head_dim = setup.shape.head_dim;
  KVICK_TRY(const uint64_t rank, read_number(spec, kOptions[7], 0, head_dim));
  asked.rank = rank != 0 ? static_cast<uint32_t>(rank) : std::max(1u, head_dim / 4);
  if (setup.select.predictor == nullptr) return asked;
  const PredictorShape& trained = setup.select.predictor->shape;
  if (trained.form == PredictorForm::kComponents)
    return base::fail("maple: the file has loki's components: kvick train distil makes maple's");
  if (trained.form == PredictorForm::kScores)
    return base::fail("maple: the file is kvzap's: kvick train distil makes maple's");
  if (trained.form == PredictorForm::kRetrieval)
    return base::fail("maple: the file is duo's: kvick train distil makes maple's");
  if (trained.form == PredictorForm::kDocument)
    return base::fail("maple: the file is kvzip's: kvick train distil makes maple's");
  if (rank != 0 && rank != trained.rank)
    return base::fail("maple: rank is {}, but the predictor was trained for {}: leave it out", rank,
                      trained.rank);
  if (asked.form != trained.form)
    return base::fail("maple: the predictor predicts from {0}: add form={0}",
                      kForms[static_cast<size_t>(trained.form)]);
  asked.rank = trained.rank;
  return asked;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Layout& layout) {
  KVICK_TRY(const Asked asked, read_options(setup));
  if (setup.select.predictor == nullptr)
    return base::fail("maple needs a predictor: file=NAME.kvp, which kvick train distil makes");
  const PredictorShape& trained = setup.select.predictor->shape;
  const Shape& shape = setup.shape;
  if (trained.layers != shape.layers || trained.kv_heads != shape.kv_heads ||
      trained.head_dim != shape.head_dim || trained.group() != setup.select.group)
    return base::fail(
        "maple: the predictor is for {} layers of {} KV heads of {} values and {} query heads for "
        "each, but this model has {}, {}, {} and {}: make its own with kvick train distil",
        trained.layers, trained.kv_heads, trained.head_dim, trained.group(), shape.layers,
        shape.kv_heads, shape.head_dim, setup.select.group);
  return make_select_store(setup, layout, std::make_unique<Maple>(setup, asked));
}

base::Result<Cost> cost(const Setup& setup, const Layout& layout, const Load& load) {
  KVICK_TRY(const Asked asked, read_options(setup));
  return select_cost(setup, layout, Maple(setup, asked), load);
}

// An unknown form gets the traits of the default form; make() refuses it.
void limit_traits(const Spec& select, Traits& traits) {
  const auto form = read_form(select);
  if (form.ok() && *form != PredictorForm::kHeads) side_row_traits(traits);
}

}  // namespace

Policy maple_policy() {
  return {.name = "maple",
          .summary = "the rows that a predictor, distilled from the model, finds heaviest",
          .options = kOptions,
          .change_traits = selecting_traits,
          .limit_traits = limit_traits,
          .make = make,
          .cost = cost};
}

}  // namespace kvick::kv
