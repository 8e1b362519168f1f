// Quest: chooses pages of rows by an upper bound of the score of their keys, from the minimum and
// maximum of each channel ("Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference",
// Tang et al. 2024, section 3.3 and algorithm 1). The bound of one query is sum_i max(q_i * min_i,
// q_i * max_i), which is the product of [max(q, 0), min(q, 0)] and [max, min]. The bounds of
// queries that share a view are summed, which is one product too.

#include <limits>
#include <numeric>

#include "kv/select/row_arithmetic.h"
#include "kv/select/select_store.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    recent_option(),
    dense_layers_option("2"),
    {.name = "page", .summary = "rows of a page, which are chosen together", .fallback = "16"},
    least_option(),
    loss_option()};
constexpr uint32_t kMostPage = 256;
constexpr uint32_t kBlockPages = 16;  // per block of summaries

class Quest final : public Selector {
 public:
  Quest(const Setup& setup, const Selection& selection)
      : Selector(selection),
        kernels_(kernels_of(setup)),
        shape_(setup.shape),
        // The type of the keys, or f16 if keys are quantised.
        type_(kernels::dtype_info(shape_.k_type).block > 1 || kernels::is_static(shape_.k_type)
                  ? kernels::DType::kF16
                  : shape_.k_type) {}

  SummaryShape summary() const override {
    return {.rows = kBlockPages * page(), .bytes = kBlockPages * page_bytes()};
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    const uint32_t dims = shape_.head_dim;
    std::vector<float> key(dims), bounds(2 * size_t{dims});  // most, least
    for_each_row(rows.segment, first, end, [&](uint32_t row, const std::byte* k, const std::byte*) {
      read_key(rows.segment, k, key);
      transform(kernels_, shape_.hadamard_blocks().k, key);
      std::byte* const at = bounds_at(rows, row / page());
      if (row % page() == 0)
        std::fill_n(std::fill_n(bounds.begin(), dims, -std::numeric_limits<float>::infinity()),
                    dims, std::numeric_limits<float>::infinity());
      else if (row == first)
        kernels::to_f32(type_, at, bounds.size(), bounds.data());
      for (uint32_t i = 0; i < dims; ++i) {
        bounds[i] = std::max(bounds[i], key[i]);
        bounds[dims + i] = std::min(bounds[dims + i], key[i]);
      }
      if (row % page() + 1 == page() || row + 1 == end)
        kernels_.store_row(type_, bounds.data(), bounds.size(), at);
    });
  }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const uint32_t dims = shape_.head_dim, unit = page();
    const std::span<float> q = scratch.make<float>(2 * size_t{dims});
    std::fill(q.begin(), q.end(), 0.0F);
    for (const float* query : question.queries)
      for (uint32_t i = 0; i < dims; ++i) {
        q[i] += std::max(query[i], 0.0F);
        q[dims + i] += std::min(query[i], 0.0F);
      }
    const uint32_t begin = question.top_rows.first / unit, end = question.top_rows.last / unit;
    const std::span<float> scores = scratch.make<float>(end - begin);
    for (uint32_t at = begin; at < end;) {
      const uint32_t n = std::min(end, (at / kBlockPages + 1) * kBlockPages) - at;
      kernels_.dot_rows(type_, bounds_at(question.rows, at), page_bytes(), n, q.data(), q.size(),
                        scores.data() + (at - begin));
      at += n;
    }
    const auto pages = highest(kernels_, scores, question.top_rows.take / unit, scratch);
    const std::span<uint32_t> rows = scratch.make<uint32_t>(question.top_rows.take);
    auto row = rows.begin();
    for (const uint32_t page : pages) {
      std::iota(row, row + unit, (begin + page) * unit);
      row += unit;
    }
    choice.rows = rows;
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    return (top_rows.last - top_rows.first) / page() * page_bytes();
  }

 private:
  uint32_t page() const { return selection().unit; }
  size_t page_bytes() const { return kernels::dtype_bytes(type_, 2 * size_t{shape_.head_dim}); }
  std::byte* bounds_at(const RowsOfHead& rows, uint32_t page) const {
    return rows.summary(page / kBlockPages) + page % kBlockPages * page_bytes();
  }

  const kernels::Table& kernels_;
  Shape shape_;
  kernels::DType type_;  // of bounds
};

base::Result<std::unique_ptr<const Selector>> selector_of(const Setup& setup) {
  KVICK_TRY(Selection selection,
            read_selection(setup.select.spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(setup.select.spec, selection));
  KVICK_TRY(const uint64_t page, read_number(setup.select.spec, kOptions[4], 1, kMostPage));
  selection.unit = static_cast<uint32_t>(page);
  return std::unique_ptr<const Selector>(std::make_unique<Quest>(setup, selection));
}

}  // namespace

Policy quest_policy() {
  return {.name = "quest",
          .summary = "the pages whose keys may score highest, by the bounds of each channel",
          .options = kOptions,
          .change_traits = selecting_traits,
          .make = make_selecting<selector_of>,
          .cost = cost_selecting<selector_of>};
}

}  // namespace kvick::kv
