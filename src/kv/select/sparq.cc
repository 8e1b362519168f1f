// SparQ: chooses rows by the largest components of the query, and lets the mean value stand for the
// omitted rows ("SparQ Attention: Bandwidth-Efficient LLM Inference", Ribar et al. 2023, algorithm
// 1). The r components with the largest sum of |q| over the queries that share a KV head give
// approximate scores s = softmax(q_r K_r^T / sqrt(d * |q_r|_1 / |q|_1)). Rows with the highest sum
// of s over the queries are read. Per query, alpha, the sum of s over the rows read, weighs exact
// attention to these rows against the mean of all values.
//
// Components are read in place, from the rows: in a row of 64 to 256 bytes the chosen components
// touch all cache lines, so a product with the whole row (the other components times zero) is as
// fast.

#include <cmath>

#include "kv/select/row_arithmetic.h"
#include "kv/select/select_store.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    recent_option(),
    dense_layers_option(),
    {.name = "r",
     .summary = "largest components of a query from which scores are estimated",
     .fallback = "16"},
    least_option(),
    loss_option()};
constexpr uint32_t kMostComponents = 4096;

class SparQ final : public Selector {
 public:
  SparQ(const Setup& setup, const Selection& selection, uint32_t components)
      : Selector(selection),
        kernels_(kernels_of(setup)),
        shape_(setup.shape),
        components_(std::min(components, shape_.head_dim)) {}

  // One summary per sequence: the sum of all values.
  SummaryShape summary() const override {
    return {.rows = shape_.max_tokens, .bytes = shape_.dim(true) * sizeof(float)};
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    const std::span<float> sum = sum_of(rows);
    if (first == 0) std::fill(sum.begin(), sum.end(), 0.0F);
    std::vector<float> value(sum.size());
    for_each_row(rows.segment, first, end, [&](uint32_t, const std::byte*, const std::byte* v) {
      add_value(rows.segment, v, value, sum);
    });
  }

  bool reads_rows() const override { return true; }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const std::span<float> weight = component_weights(question, scratch);
    const TopRows& top_rows = question.top_rows;
    const std::span<float> total = scratch.make<float>(top_rows.last - top_rows.first);
    std::fill(total.begin(), total.end(), 0.0F);
    const size_t fresh = kernels::rows_of(question.fresh);
    std::vector<std::span<float>> scores;  // per query: committed rows, then fresh rows
    for (size_t i = 0; i < question.queries.size(); ++i) {
      scores.push_back(scratch.make<float>(question.count + fresh));
      approximate(question, i, weight, scratch, scores[i]);
      kernels_.add(total.data(), scores[i].data() + top_rows.first, total.size());
    }
    const auto taken = highest(kernels_, total, top_rows.take, scratch);
    const std::span<uint32_t> rows = scratch.make<uint32_t>(taken.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = top_rows.first + taken[i];
    choice.rows = rows;
    choice.rest_mass = masses(top_rows, rows, scores, scratch);
    choice.rest = mean(question, scratch).data();
  }

  // Counts the keys of all rows (see above) and the mean, without the chosen rows, whose view
  // counts them.
  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    return (top_rows.last - top_rows.first - top_rows.take) * shape_.row_bytes(false) +
           summary().bytes;
  }

 private:
  std::span<float> sum_of(const RowsOfHead& rows) const {
    return {reinterpret_cast<float*>(rows.summary(0)), shape_.dim(true)};
  }

  std::span<float> mean(const SelectRequest& question, base::Arena& scratch) const {
    const std::span<const float> sum = sum_of(question.rows);
    const std::span<float> mean = scratch.make<float>(sum.size());
    for (size_t i = 0; i < mean.size(); ++i) mean[i] = sum[i] / static_cast<float>(question.count);
    return mean;
  }

  // Returns 1 for the components that choose, 0 for the others.
  std::span<float> component_weights(const SelectRequest& question, base::Arena& scratch) const {
    const std::span<float> sums = scratch.make<float>(shape_.head_dim);
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (const float* query : question.queries)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += std::abs(query[i]);
    const auto largest = highest(kernels_, sums, components_, scratch);
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (const uint32_t i : largest) sums[i] = 1;
    return sums;
  }

  // Computes the approximate probabilities of one query: of the committed rows, then of the fresh
  // rows that its token sees. Further scores are undefined.
  void approximate(const SelectRequest& question, size_t query, std::span<const float> weight,
                   base::Arena& scratch, std::span<float> scores) const {
    const std::span<float> q = scratch.make<float>(shape_.head_dim);
    float kept = 0, all = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      q[i] = question.queries[query][i] * weight[i];
      kept += std::abs(q[i]);
      all += std::abs(question.queries[query][i]);
    }
    transform(kernels_, shape_.hadamard_blocks().k, q);  // like the stored keys
    dot_keys(kernels_, question.rows.segment, q, scores.first(question.count));
    dot_keys(kernels_, question.fresh, q, scores.subspan(question.count));
    const size_t seen = question.count + gather_path(question, query / question.group, scores);
    const float share = all > 0 ? kept / all : 1;
    const float sum = softmax_weights(
        kernels_, scores.first(seen),
        {.scale = question.scale / std::sqrt(share),
         .softcap = question.softcap,
         .sink = question.sinks != nullptr ? question.sinks + query % question.group : nullptr});
    for (size_t i = 0; i < seen; ++i) scores[i] /= sum;
  }

  // Moves the scores of the fresh rows that a token sees directly after the committed rows; returns
  // how many these are.
  static size_t gather_path(const SelectRequest& question, size_t token, std::span<float> scores) {
    if (question.path == nullptr) return token + 1;
    const std::span<const uint32_t> path = question.path[token];
    // Ascending, so that no score is overwritten before it is read.
    for (size_t i = 0; i < path.size(); ++i)
      scores[question.count + i] = scores[question.count + path[i]];
    return path.size();
  }

  // Returns, per query, the probability mass of the rows that are not read.
  static std::span<const float> masses(const TopRows& top_rows, std::span<const uint32_t> rows,
                                       std::span<const std::span<float>> scores,
                                       base::Arena& scratch) {
    const std::span<float> masses = scratch.make<float>(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      float left = 0;
      for (uint32_t row = top_rows.first; row < top_rows.last; ++row) left += scores[i][row];
      for (const uint32_t row : rows) left -= scores[i][row];
      masses[i] = std::clamp(left, 0.0F, 1.0F);
    }
    return masses;
  }

  const kernels::Table& kernels_;
  Shape shape_;
  uint32_t components_;
};

base::Result<std::unique_ptr<const Selector>> selector_of(const Setup& setup) {
  KVICK_TRY(Selection selection,
            read_selection(setup.select.spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(setup.select.spec, selection));
  KVICK_TRY(const uint64_t r, read_number(setup.select.spec, kOptions[4], 1, kMostComponents));
  return std::unique_ptr<const Selector>(
      std::make_unique<SparQ>(setup, selection, static_cast<uint32_t>(r)));
}

}  // namespace

Policy sparq_policy() {
  return {.name = "sparq",
          .summary = "the rows that the largest components of the query score highest",
          .options = kOptions,
          .change_traits = selecting_traits,
          .make = make_selecting<selector_of>,
          .cost = cost_selecting<selector_of>};
}

}  // namespace kvick::kv
