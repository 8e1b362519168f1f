// Clusters: rows with similar keys form a group (row_clusters.h). Each group gets a weight from the
// product of a query and the group's mean key. Groups are read by descending weight until the
// budget is used; of the last group only its first rows are read. Rows that are not read still
// count: the group's mean key and mean value take part in the softmax once per unread row, as a
// bias of log(unread rows) on the logit of the mean key. After RetroInfer (arXiv 2505.02922).
//
// A group's weight is the probability that one of its rows would have if all rows had their group's
// mean key, summed over the queries that share the KV head. Rows that are always read do not count
// in these probabilities; the sink of a query's head does, so a query whose attention goes there
// has less say. Weights are computed from mean keys in 8 bits (block_vectors.h).

#include <bit>
#include <cmath>
#include <limits>

#include "kv/select/block_vectors.h"
#include "kv/select/row_arithmetic.h"
#include "kv/select/row_clusters.h"
#include "kv/select/select_store.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    recent_option(),
    dense_layers_option(),
    {.name = "cluster",
     .summary = "rows of a group of similar keys on average, a power of two",
     .fallback = "8"},
    {.name = "block",
     .summary = "rows among which groups are formed, a power of two, at least eight groups",
     .fallback = "512"},
    {.name = "rest",
     .summary = "on: groups that are not read count by their means; off: they do not count",
     .fallback = "on"},
    least_option(),
    loss_option()};
constexpr uint32_t kMostCluster = 256, kMostBlock = 8192;
// The bias of a mean without unread rows: it has no weight, but stays finite.
constexpr float kNoWeight = -1e30F;

struct ClusterOptions {
  Selection selection;
  uint32_t cluster = 0, block = 0;
  bool rest = false;
};

class Clusters final : public Selector {
 public:
  Clusters(const Setup& setup, const ClusterOptions& options)
      : Selector(options.selection),
        kernels_(kernels_of(setup)),
        rows_(setup.shape),
        shape_({.head_dim = setup.shape.head_dim,
                .cluster = options.cluster,
                .block = options.block,
                .v_dim = setup.shape.dim(true)}),
        keys_(kernels_, {.per_block = shape_.most_clusters(),
                         .dims = shape_.head_dim,
                         .scaled = true,
                         .offset = shape_.bytes()}),
        rest_(options.rest) {
    for (uint32_t i = 1; i <= shape_.block; ++i)
      logarithms_.push_back(std::log(static_cast<float>(i)));
  }

  SummaryShape summary() const override {
    return {.rows = shape_.block, .bytes = shape_.bytes() + keys_.bytes()};
  }

  uint32_t summary_begin(uint32_t first, uint32_t end) const override {
    const uint32_t begin = first / shape_.block * shape_.block;
    return begin + first_grouped(shape_, first - begin, std::min(end - begin, shape_.block));
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    std::vector<float> mean(shape_.head_dim);
    for (uint32_t begin = first / shape_.block * shape_.block; begin < end; begin += shape_.block) {
      const uint32_t had = std::max(first, begin) - begin;
      const uint32_t now = std::min(end - begin, shape_.block);
      const ClusterBlock block = block_of(rows, begin);
      group_rows(kernels_, shape_, rows.segment, begin, had, now, block);
      for (uint32_t i = first_grouped(shape_, had, now) / shape_.cluster;
           i < shape_.clusters_of(now); ++i) {
        kernels::to_f32(shape_.mean_type(false), block.key(i), mean.size(), mean.data());
        keys_.round(rows.summary(begin / shape_.block), i, mean);
      }
    }
  }

  bool summarises_again() const override { return true; }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const Range range = range_of(question.top_rows, question.count);
    ask_for_orders(question, range);
    const std::span<uint32_t> counts = scratch.make<uint32_t>(range.clusters);
    count_rows(question, range, counts);
    const std::span<float> weights = weigh(question, range, counts, scratch);
    // Number of rows read of each group.
    const std::span<uint32_t> read = scratch.make<uint32_t>(range.clusters);
    take(weights, counts, question.top_rows.take, read, scratch);
    choice.rows = rows_of(question, range, read, scratch);
    for (size_t i = 0; i < counts.size(); ++i) counts[i] -= read[i];
    if (rest_) choice.stand_ins = means(question, range, counts, scratch);
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t rows) const override {
    const Range range = range_of(top_rows, rows);
    return range.clusters * (shape_.mean_bytes(false) + shape_.mean_bytes(true) +
                             keys_.bytes() / shape_.most_clusters() + sizeof(uint16_t)) +
           top_rows.take * sizeof(uint16_t);
  }

 private:
  // The blocks that hold rows to choose from, and the number of their groups. The groups of block
  // `first + i` are numbered from i * most_clusters() on.
  struct Range {
    uint32_t first = 0, end = 0, clusters = 0;
  };
  Range range_of(const TopRows& top_rows, uint32_t rows) const {
    if (top_rows.first == top_rows.last) return {};
    Range range = {.first = top_rows.first / shape_.block,
                   .end = (top_rows.last - 1) / shape_.block + 1};
    const uint32_t full = range.end - 1 - range.first;
    range.clusters =
        full * shape_.most_clusters() +
        shape_.clusters_of(std::min(rows - (range.end - 1) * shape_.block, shape_.block));
    return range;
  }
  ClusterBlock block_of(const RowsOfHead& rows, uint32_t begin) const {
    return {shape_, rows.summary(begin / shape_.block)};
  }
  // Calls use(block, first row, number of its first group, groups) for the blocks of a range.
  template <class Use>
  void for_each_block(const SelectRequest& question, const Range& range, const Use& use) const {
    for (uint32_t i = range.first, at = 0; i < range.end; ++i, at += shape_.most_clusters()) {
      const uint32_t count = std::min(shape_.most_clusters(), range.clusters - at);
      use(block_of(question.rows, i * shape_.block), i * shape_.block, at, count);
    }
  }

  // Prefetches the lists of rows per group, a few cache lines of each block, which are read now and
  // again after weighing. Waiting for one line after the other took a third of the choice's time.
  void ask_for_orders(const SelectRequest& question, const Range& range) const {
    constexpr size_t kLine = 64;
    for_each_block(question, range, [&](ClusterBlock block, uint32_t, uint32_t, uint32_t) {
      const auto* const order = reinterpret_cast<const std::byte*>(block.order());
      for (size_t at = 0; at < shape_.order_bytes(); at += kLine) __builtin_prefetch(order + at);
    });
  }

  // Counts the rows of each group that may be chosen.
  void count_rows(const SelectRequest& question, const Range& range,
                  std::span<uint32_t> counts) const {
    const uint32_t first = question.top_rows.first, last = question.top_rows.last;
    for_each_block(
        question, range, [&](ClusterBlock block, uint32_t begin, uint32_t at, uint32_t clusters) {
          const uint16_t* const ends = block.ends();
          for (uint32_t i = 0; i < clusters; ++i)
            counts[at + i] = uint32_t{ends[i]} - (i == 0 ? 0U : ends[i - 1]);
          if (begin >= first && begin + shape_.block <= last) return;
          for (uint32_t i = 0; i < clusters; ++i) {
            const std::span<const uint16_t> rows = block.rows_of(i);
            counts[at + i] =
                static_cast<uint32_t>(std::count_if(rows.begin(), rows.end(), [&](uint16_t row) {
                  return begin + row >= first && begin + row < last;
                }));
          }
        });
  }

  // Returns the weight of each group (see above).
  std::span<float> weigh(const SelectRequest& question, const Range& range,
                         std::span<const uint32_t> counts, base::Arena& scratch) const {
    const size_t dims = shape_.head_dim;
    const std::span<const float> queries = stored_queries(question.queries, scratch);
    const std::span<kernels::Range> groups = scratch.make<kernels::Range>(1);
    groups[0].begin = range.first * shape_.most_clusters();
    groups[0].end = groups[0].begin + range.clusters;
    // A mean counts once per row of its group: once in softmax_weights(), and here the other times.
    const std::span<float> others = scratch.make<float>(counts.size());
    for (size_t i = 0; i < counts.size(); ++i)
      others[i] = counts[i] > 0 ? static_cast<float>(counts[i] - 1) : 0;
    const auto score = [&](size_t first, size_t n, float* scores) {
      keys_.score(question.rows, groups, queries.subspan(first * dims, n * dims), scratch, scores,
                  counts.size());
    };
    const auto softmax = [&](size_t query, std::span<float> scores) {
      for (size_t i = 0; i < counts.size(); ++i)
        if (counts[i] == 0) scores[i] = -std::numeric_limits<float>::infinity();
      const float* const sinks = question.sinks;
      const float sum =
          softmax_weights(kernels_, scores,
                          {.scale = question.scale,
                           .softcap = question.softcap,
                           .sink = sinks != nullptr ? sinks + query % question.group : nullptr});
      return sum + kernels_.dot(others.data(), scores.data(), scores.size());
    };
    return summed_probabilities(kernels_, question.queries.size(), range.clusters, scratch, score,
                                softmax);
  }

  // Returns the queries in one array, Hadamard-transformed like the stored keys.
  std::span<const float> stored_queries(std::span<const float* const> queries,
                                        base::Arena& scratch) const {
    const size_t dims = shape_.head_dim;
    const std::span<float> all = scratch.make<float>(queries.size() * dims);
    for (size_t i = 0; i < queries.size(); ++i) {
      std::copy_n(queries[i], dims, &all[i * dims]);
      transform(kernels_, rows_.hadamard_blocks().k, all.subspan(i * dims, dims));
    }
    return all;
  }

  // Sets read[i], the rows read of group i: all rows of the groups with the highest weights, then
  // the rest of `rows` from the next group. Equal weights: lower group numbers first.
  static void take(std::span<float> weights, std::span<const uint32_t> counts, uint32_t rows,
                   std::span<uint32_t> read, base::Arena& scratch) {
    // Sorts weights into classes by their first bits, eight classes per factor of two. Only weights
    // of the class in which `rows` runs out are compared: comparing all took as long as the
    // attention.
    constexpr uint32_t kClasses = 1U << 12, kShift = 20;
    const auto class_of = [](float weight) {
      return weight > 0 ? std::bit_cast<uint32_t>(weight) >> kShift : 0;  // NaN: the lowest class
    };
    const std::span<uint32_t> rows_of_class = scratch.make<uint32_t>(kClasses);
    std::fill(rows_of_class.begin(), rows_of_class.end(), 0U);
    for (size_t i = 0; i < weights.size(); ++i) rows_of_class[class_of(weights[i])] += counts[i];
    uint32_t last = kClasses - 1, left = rows;
    for (; last > 0 && rows_of_class[last] <= left; --last) left -= rows_of_class[last];
    const std::span<uint32_t> order = scratch.make<uint32_t>(weights.size());
    size_t in_last = 0;
    for (uint32_t i = 0; i < weights.size(); ++i) {
      const uint32_t its = class_of(weights[i]);
      read[i] = its > last ? counts[i] : 0;
      order[in_last] = i;
      in_last += its == last ? 1 : 0;
    }
    const auto number = [&](uint32_t i) { return weights[i] >= 0 ? weights[i] : -1.0F; };
    const auto heavier = [&](uint32_t a, uint32_t b) {
      return number(a) > number(b) || (number(a) == number(b) && a < b);
    };
    // Halves this class until one group is left, which may be read in part.
    auto low = order.begin(), high = low + static_cast<ptrdiff_t>(in_last);
    while (high - low > 1) {
      const auto middle = low + (high - low) / 2;
      std::nth_element(low, middle, high, heavier);
      uint32_t before = 0;
      for (auto i = low; i != middle; ++i) before += counts[*i];
      if (before > left) {
        high = middle;
        continue;
      }
      for (; low != middle; ++low) read[*low] = counts[*low];
      left -= before;
    }
    if (low != high) read[*low] = std::min(left, counts[*low]);
  }

  // Returns the rows to read, ascending.
  std::span<const uint32_t> rows_of(const SelectRequest& question, const Range& range,
                                    std::span<const uint32_t> read, base::Arena& scratch) const {
    constexpr uint32_t kBits = 64;
    const uint32_t first = question.top_rows.first, last = question.top_rows.last;
    const uint32_t begin_of_all = range.first * shape_.block;
    const std::span<uint64_t> bits =
        scratch.make<uint64_t>((last - begin_of_all + kBits - 1) / kBits);
    std::fill(bits.begin(), bits.end(), 0u);
    for_each_block(question, range,
                   [&](ClusterBlock block, uint32_t begin, uint32_t at, uint32_t clusters) {
                     for (uint32_t i = 0; i < clusters; ++i) {
                       uint32_t left = read[at + i];
                       if (left == 0) continue;
                       for (const uint16_t of_block : block.rows_of(i)) {
                         const uint32_t row = begin + of_block;
                         if (row < first || row >= last) continue;
                         const uint32_t bit = row - begin_of_all;
                         bits[bit / kBits] |= uint64_t{1} << bit % kBits;
                         if (--left == 0) break;
                       }
                     }
                   });
    const std::span<uint32_t> rows = scratch.make<uint32_t>(question.top_rows.take);
    size_t n = 0;
    for (size_t word = 0; word < bits.size(); ++word)
      for (uint64_t left = bits[word]; left != 0 && n < rows.size(); left &= left - 1)
        rows[n++] = begin_of_all + static_cast<uint32_t>(word * kBits) +
                    static_cast<uint32_t>(std::countr_zero(left));
    return rows.first(n);
  }

  // Returns the means of all groups as rows, each weighted by counts[i] (its row_bias).
  std::span<const kernels::Segment> means(const SelectRequest& question, const Range& range,
                                          std::span<const uint32_t> counts,
                                          base::Arena& scratch) const {
    const std::span<float> bias = scratch.make<float>(range.clusters);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = logarithms_[counts[i]];
    const std::span<kernels::Segment> segments =
        scratch.make<kernels::Segment>(range.end - range.first);
    const std::span<kernels::Run> runs = scratch.make<kernels::Run>(segments.size());
    const auto k_stride = static_cast<uint32_t>(shape_.mean_bytes(false));
    const auto v_stride = static_cast<uint32_t>(shape_.mean_bytes(true));
    for_each_block(question, range,
                   [&](ClusterBlock block, uint32_t, uint32_t at, uint32_t clusters) {
                     const uint32_t i = at / shape_.most_clusters();
                     runs[i] = {.row = 0, .rows = clusters, .pos = 0};
                     segments[i] = {.k = block.key(0),
                                    .v = block.value(0),
                                    .k_stride = k_stride,
                                    .v_stride = v_stride,
                                    .k_type = shape_.mean_type(false),
                                    .v_type = shape_.mean_type(true),
                                    .runs = runs.subspan(i, 1),
                                    .row_bias = bias.data() + at};
                   });
    return segments;
  }

  const kernels::Table& kernels_;
  Shape rows_;
  ClusterShape shape_;
  BlockVectors keys_;  // the mean keys in 8 bits
  bool rest_;
  std::vector<float> logarithms_ = {kNoWeight};  // [i]: log(i), and kNoWeight for 0
};

base::Result<ClusterOptions> read_options(const Setup& setup) {
  const Spec& spec = setup.select.spec;
  ClusterOptions options;
  KVICK_TRY(options.selection,
            read_selection(spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(spec, options.selection));
  const auto power = [&](const Option& option, uint64_t least,
                         uint64_t most) -> base::Result<uint32_t> {
    KVICK_TRY(const uint64_t rows, read_number(spec, option, least, most));
    if (std::has_single_bit(rows)) return static_cast<uint32_t>(rows);
    return base::fail("{}: {}={} is not a power of two, such as {}", spec.name, option.name, rows,
                      std::bit_floor(rows));
  };
  KVICK_TRY(options.cluster, power(kOptions[4], 1, kMostCluster));
  KVICK_TRY(options.block,
            power(kOptions[5], ClusterShape::kLeastClusters * options.cluster, kMostBlock));
  KVICK_TRY(options.rest, read_switch(spec, kOptions[6]));
  return options;
}

base::Result<std::unique_ptr<const Selector>> selector_of(const Setup& setup) {
  KVICK_TRY(const ClusterOptions options, read_options(setup));
  return std::unique_ptr<const Selector>(std::make_unique<Clusters>(setup, options));
}

}  // namespace

Policy clusters_policy() {
  return {.name = "clusters",
          .summary = "groups of similar keys whose mean scores highest; means stand for the others",
          .options = kOptions,
          .change_traits = selecting_traits,
          .make = make_selecting<selector_of>,
          .cost = cost_selecting<selector_of>};
}

}  // namespace kvick::kv
