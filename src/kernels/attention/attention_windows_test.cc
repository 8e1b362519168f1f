// Windows, sinks, softcaps, latent rows, and keys and values of different sizes.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/test_attention.h"

namespace kvick::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Shape {
  uint32_t past = 0, fresh = 1, group = 1, k_dim = 64, v_dim = 64;
  DType k_type = DType::kF16, v_type = DType::kF16;
  bool latent = false, biased = false, tree = false, sinks = false, chunked = false;
  uint32_t window = 0;
  float softcap = 0;
  std::optional<DType> fresh_type = {};  // of fresh keys and values, if it is another
  bool kivi = false;                     // whole groups of committed rows are of the KIVI types

  uint32_t kivi_rows() const { return kivi ? past / kGroupRows * kGroupRows : 0; }
  DType type(uint32_t row, bool is_v) const {
    if (row < kivi_rows()) return is_v ? DType::kKivi4V : DType::kKivi4K;
    if (row >= past && fresh_type) return *fresh_type;
    return is_v ? v_type : k_type;
  }
};

float scale_of(DType type) { return is_static(type) ? 0.03F : 1; }

// These convert one row, or a whole group of rows, to and from a type. x: [rows][dims].
void write(DType type, const float* x, uint32_t dims, std::byte* const* rows) {
  std::vector<float> codes(x, x + size_t{rows_together(type)} * dims);
  for (float& e : codes) e /= scale_of(type);
  if (rows_together(type) > 1)
    group_from_f32(type, codes.data(), dims, dims, rows);
  else
    from_f32(type, codes.data(), dims, rows[0]);
}
void make_representable(DType type, uint32_t dims, float* x) {
  const uint32_t rows = rows_together(type);
  std::vector<std::byte> memory(rows * dtype_bytes(type, dims));
  std::vector<std::byte*> at;
  for (uint32_t i = 0; i < rows; ++i) at.push_back(&memory[i * dtype_bytes(type, dims)]);
  write(type, x, dims, at.data());
  if (rows > 1)
    group_to_f32(type, at.data(), dims, x);
  else
    to_f32(type, at[0], dims, x);
  for (uint32_t i = 0; i < rows * dims; ++i) x[i] *= scale_of(type);
}

// Rows of some positions, in runs in random order, between rows of NaN.
struct Part {
  std::vector<std::byte> k, v;
  std::vector<Run> runs;
  std::vector<float> bias;
  Segment segment;
};

// The inputs of one head. Rows are by position, then fresh ones: row past + i is fresh row i.
struct Problem {
  Shape shape;
  std::vector<float> k, v, bias, q, sinks;
  // k and v before rounding, to be stored: some types would round representable values again.
  std::vector<float> k_given, v_given;
  std::vector<std::vector<uint32_t>> paths;
  std::vector<std::span<const uint32_t>> lists;

  Problem(const Shape& of, unsigned seed) : shape(of) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const uint32_t rows = shape.past + shape.fresh;
    const auto fill = [&](std::vector<float>& x, size_t n, float size) {
      x.resize(n);
      for (float& e : x) e = normal(random) * size;
    };
    fill(k, size_t{rows} * shape.k_dim, 1);
    fill(v, size_t{rows} * shape.v_dim, 1), k_given = k, v_given = v;
    fill(bias, rows, shape.biased ? 1 : 0);
    fill(q, size_t{rows} * shape.group * shape.k_dim, 2);  // by position
    fill(sinks, shape.group, 3);
    for (uint32_t row = 0; row < rows; row += rows_together(shape.type(row, false)))
      make_representable(shape.type(row, false), shape.k_dim, &k[size_t{row} * shape.k_dim]);
    for (uint32_t row = 0; row < rows; ++row)
      make_representable(shape.type(row, true), shape.v_dim, &v[size_t{row} * shape.v_dim]);
    for (uint32_t row = 0; shape.latent && row < rows; ++row)
      std::copy_n(&k[size_t{row} * shape.k_dim], shape.v_dim, &v[size_t{row} * shape.v_dim]);
    for (uint32_t i = 0; shape.tree && i < shape.fresh; ++i) {
      paths.emplace_back();
      if (i > 0 && random() % 8 > 0) paths[i] = paths[i - 1 - random() % std::min(i, 3U)];
      paths[i].push_back(i);
    }
    lists.assign(paths.begin(), paths.end());
  }

  Queries queries(uint32_t first, uint32_t tokens) const {
    const uint32_t stride = shape.group * shape.k_dim;
    return {.q = q.data() + size_t{shape.past + first} * stride,
            .q_stride = stride,
            .first = first,
            .tokens = tokens,
            .group = shape.group,
            .k_dim = shape.k_dim,
            .v_dim = shape.v_dim,
            .scale = 1 / std::sqrt(static_cast<float>(shape.k_dim)),
            .softcap = shape.softcap,
            .sinks = shape.sinks ? sinks.data() : nullptr,
            .visible = shape.tree ? lists.data() : nullptr,
            .window = shape.window,
            .chunked = shape.chunked,
            .position = shape.past};
  }

  void store(uint32_t begin, uint32_t end, uint32_t longest, std::mt19937& random,
             Part& part) const {
    Segment& s = part.segment;
    s.k_type = shape.type(begin, false), s.v_type = shape.type(begin, true);
    s.k_scale = scale_of(s.k_type), s.v_scale = scale_of(s.v_type);
    s.k_stride = static_cast<uint32_t>(dtype_bytes(s.k_type, shape.k_dim) + 8 * (random() % 3));
    s.v_stride = static_cast<uint32_t>(dtype_bytes(s.v_type, shape.v_dim) + 8 * (random() % 3));
    for (uint32_t row = begin; row < end; row += part.runs.back().rows)
      part.runs.push_back({0, std::min<uint32_t>(end - row, 1 + random() % longest), row});
    std::vector<Run*> order;
    for (Run& run : part.runs) order.push_back(&run);
    std::shuffle(order.begin(), order.end(), random);
    uint32_t used = 0;
    for (Run* run : order) {
      run->row = used + random() % 2;
      used = run->row + run->rows;
    }
    part.k.assign(size_t{used + 1} * s.k_stride, std::byte{0xff});
    part.v.assign(size_t{used + 1} * s.v_stride, std::byte{0xff});
    part.bias.assign(used + 1, std::numeric_limits<float>::quiet_NaN());
    std::vector<std::byte*> keys, values;  // by position
    for (const Run& run : part.runs)
      for (uint32_t i = 0; i < run.rows; ++i) {
        keys.push_back(&part.k[size_t{run.row + i} * s.k_stride]);
        values.push_back(&part.v[size_t{run.row + i} * s.v_stride]);
        part.bias[run.row + i] = bias[run.pos + i];
      }
    const uint32_t together = rows_together(s.k_type);
    for (uint32_t row = begin; row < end; ++row) {
      if ((row - begin) % together == 0)
        write(s.k_type, &k_given[size_t{row} * shape.k_dim], shape.k_dim, &keys[row - begin]);
      write(s.v_type, &v_given[size_t{row} * shape.v_dim], shape.v_dim, &values[row - begin]);
    }
    s.k = part.k.data(), s.v = part.v.data();
    if (shape.latent) s.v = s.k, s.v_stride = s.k_stride;
    if (shape.biased) s.row_bias = part.bias.data();
    s.runs = part.runs;
  }
};

// A view of committed rows from position `begin` on, in two segments, and of fresh rows.
struct Layout {
  Part parts[3];
  View view;
  Layout(const Problem& p, uint32_t begin, uint32_t longest, std::mt19937& random) {
    const uint32_t groups = p.shape.kivi_rows();
    if (begin < groups) begin = begin / kGroupRows * kGroupRows;
    const uint32_t middle =
        p.shape.kivi ? std::max(groups, begin) : begin + random() % (p.shape.past - begin + 1);
    p.store(begin, middle, longest, random, parts[0]);
    p.store(middle, p.shape.past, longest, random, parts[1]);
    p.store(p.shape.past, p.shape.past + p.shape.fresh, longest, random, parts[2]);
    for (int i = 0; i < 2; ++i) view.past.push_back(parts[i].segment);
    view.fresh = parts[2].segment;
  }
};

using Floats = std::vector<float>;

Floats attend(const Table& table, const View& view, const Queries& queries) {
  const uint32_t n = queries.tokens * queries.group, size = n * queries.v_dim;
  Floats max(2 * n), sum(2 * n), acc(2 * size), out(size);
  const Partial state = {max.data(), sum.data(), acc.data()};
  const Partial next = {max.data() + n, sum.data() + n, acc.data() + size};
  const uint32_t chunks = std::max(1U, chunk_count(view, queries));
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    table.attend_chunk(view, queries, chunk, chunk == 0 ? state : next, nullptr);
    if (chunk > 0) table.merge(state, next, n, queries.v_dim);
  }
  table.finish(state, view, queries, out.data(), queries.group * queries.v_dim);
  return out;
}

// -- the definition, in double --------------------------------------------------------------------

// Returns the rows (indices in k and v) that fresh token t sees.
std::vector<uint32_t> rows_of_token(const Problem& p, uint32_t t) {
  const Shape& s = p.shape;
  std::vector<uint32_t> text, rows;  // row at each position up to the token's own
  for (uint32_t row = 0; row < s.past; ++row) text.push_back(row);
  if (s.tree)
    for (const uint32_t i : p.paths[t]) text.push_back(s.past + i);
  else
    for (uint32_t i = 0; i <= t; ++i) text.push_back(s.past + i);
  const auto own = static_cast<int64_t>(text.size()) - 1;
  for (int64_t at = 0; at <= own; ++at)
    if (s.window == 0 || (s.chunked ? at / s.window == own / s.window : own - at < s.window))
      rows.push_back(text[static_cast<size_t>(at)]);
  return rows;
}

std::vector<double> naive(const Problem& p, const std::vector<uint32_t>& rows, uint32_t t,
                          uint32_t g) {
  const Shape& s = p.shape;
  const float* q = &p.q[(size_t{s.past + t} * s.group + g) * s.k_dim];
  std::vector<double> logits, out(s.v_dim);
  for (const uint32_t row : rows) {
    double logit = 0;
    for (uint32_t d = 0; d < s.k_dim; ++d) logit += double{q[d]} * p.k[size_t{row} * s.k_dim + d];
    logit /= std::sqrt(s.k_dim);
    if (s.softcap != 0) logit = s.softcap * std::tanh(logit / s.softcap);
    logits.push_back(logit + p.bias[row]);
  }
  double sum = s.sinks ? std::exp(p.sinks[g]) : 0;
  for (double& x : logits) sum += x = std::exp(x);
  for (size_t i = 0; i < rows.size(); ++i)
    for (uint32_t d = 0; d < s.v_dim; ++d)
      out[d] += logits[i] / sum * p.v[size_t{rows[i]} * s.v_dim + d];
  return out;
}

// Returns the largest error of a logit: from rounding queries to 16 bits for quantised keys (half a
// step of each group's largest element), and from the rounding of the prompt kernel.
double logit_rounding(const Problem& p, const Set& set) {
  const uint32_t dims = p.shape.k_dim;
  double largest = 0, key = 0, sizes = 0;
  for (const float x : p.q) largest = std::max<double>(largest, std::abs(x));
  for (size_t row = 0; row < p.k.size(); row += dims) {
    double sum = 0, squares = 0;
    for (uint32_t d = 0; d < dims; ++d) {
      sum += std::abs(p.k[row + d]);
      squares += double{p.k[row + d]} * p.k[row + d];
    }
    key = std::max(key, sum);
    sizes = std::max(sizes, std::sqrt(squares));
  }
  bool codes = false;
  for (const uint32_t row : {p.shape.past, p.shape.past - 1})
    codes = codes || dtype_info(p.shape.type(row, false)).block == 32;
  const double query = 3 * std::sqrt(dims);  // bound of a norm that is about 2 sqrt(dims)
  return ((codes ? key * largest / 32512 / 2 : 0) + set.rounding * query * sizes) / std::sqrt(dims);
}

void expect_close(const Problem& p, const Floats& out, const Set& set) {
  const Shape& s = p.shape;
  double largest = 0;
  for (const float x : p.v) largest = std::max<double>(largest, std::abs(x));
  const double bound = 1e-5 + 2 * (logit_rounding(p, set) + set.weights) * largest;
  for (uint32_t t = 0; t < s.fresh; t += t + 7 < s.fresh ? 7 : 1) {
    const auto rows = rows_of_token(p, t);
    for (uint32_t g = 0; g < s.group; ++g) {
      const auto expected = naive(p, rows, t, g);
      for (uint32_t d = 0; d < s.v_dim; ++d)
        ASSERT_NEAR(out[(size_t{t} * s.group + g) * s.v_dim + d], expected[d], bound)
            << set.name << " " << dtype_info(s.k_type).name << " " << s.k_dim << "/" << s.v_dim
            << " past " << s.past << " fresh " << s.fresh << " window " << s.window
            << (s.chunked ? " chunked" : "") << (s.tree ? " tree" : "") << " token " << t;
    }
  }
}

// -- shapes ---------------------------------------------------------------------------------------

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16,    DType::kQ8,      DType::kQ4,
                            DType::kQ3,  DType::kQ2,  DType::kStatic8, DType::kStatic16};

// Returns a shape whose types follow from `turn`, with a random window and size.
Shape shape_of(unsigned turn, std::mt19937& random) {
  const auto any = [&](std::initializer_list<uint32_t> list) {
    return list.begin()[random() % list.size()];
  };
  Shape s;
  s.k_type = kTypes[turn % std::size(kTypes)];
  s.past = any({0, 1, 31, 200, 255, 256, 300, 511, 700});
  s.fresh = any({1, 1, 2, 7, 40, 130});
  s.group = any({1, 2, 3, 4, 8});
  s.k_dim = any({32, 64, 96, 192, 576});
  s.v_dim = any({32, 64, 128, 160});
  s.v_type = kTypes[random() % std::size(kTypes)];
  if (random() % 3 == 0) s.v_type = s.k_type;
  if (turn % 4 == 3) s.latent = true, s.v_type = s.k_type, s.v_dim = any({32, s.k_dim});
  if (s.k_dim * s.group > 1000) s.fresh = std::min(s.fresh, 7U);
  if (!s.latent && random() % 3 == 0) s.fresh_type = kTypes[random() % 3];
  if (!s.latent && random() % 6 == 0) s.kivi = true, s.k_type = s.v_type = DType::kF16;
  if (!s.kivi && dtype_info(s.k_type).block == 1 && dtype_info(s.v_type).block == 1 &&
      random() % 2 == 0)
    s.k_dim += 8, s.v_dim -= 8;
  s.window = any({0, 1, 2, 17, 100, 128, 255, 256, 257, 300, s.past + 1, s.past + s.fresh, 1000});
  s.chunked = random() % 3 == 0;
  s.biased = random() % 2 == 0;
  s.tree = random() % 3 == 0;
  s.sinks = random() % 2 == 0;
  s.softcap = random() % 2 == 0 ? static_cast<float>(any({1, 5, 50})) : 0;
  return s;
}

// Fewer turns under a sanitizer, where each takes ten times as long.
#if defined(KVICK_SANITIZED)
constexpr unsigned kTurns = 36;
#else
constexpr unsigned kTurns = 140;
#endif

TEST(AttentionWindows, EqualTheDefinitionForAllTypesAndShapes) {
  std::mt19937 random(1);
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    const Problem p(shape_of(turn, random), turn);
    const Layout layout(p, 0, 1 + random() % 90, random);
    for (const Set& set : sets())
      expect_close(p, attend(set.table, layout.view, p.queries(0, p.shape.fresh)), set);
  }
}

TEST(AttentionWindows, BitsDoNotDependOnOlderRowsAndBatches) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    Shape shape = shape_of(turn, random);
    if (shape.window == 0) shape.window = 1 + random() % 600;
    const Problem p(shape, turn);
    const Layout all(p, 0, 1000, random);
    const uint32_t seen = std::min(first_seen(p.queries(0, shape.fresh)), shape.past);
    const Layout some(p, seen - random() % (seen + 1), 1 + random() % 50, random);
    const Layout none(p, seen, 1 + random() % 50, random);
    for (const Set& set : sets()) {
      const Floats expected = attend(set.table, all.view, p.queries(0, shape.fresh));
      for (uint32_t t = 0; t < shape.fresh;) {
        const auto tokens = std::min<uint32_t>(shape.fresh - t, 1 + random() % 40);
        const Layout& layout = random() % 2 == 0 ? some : none;
        const Floats tile = attend(set.table, layout.view, p.queries(t, tokens));
        ASSERT_EQ(0, std::memcmp(&expected[size_t{t} * shape.group * shape.v_dim], tile.data(),
                                 tile.size() * sizeof(float)))
            << set.name << " turn " << turn << " window " << shape.window << " tokens " << t << "+"
            << tokens;
        t += tokens;
      }
    }
  }
}

TEST(AttentionWindows, BitsDoNotDependOnWhatIsPastAndWhatIsFresh) {
  std::mt19937 random(3);
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    Shape shape = shape_of(turn, random);
    shape.tree = shape.kivi = false;
    shape.fresh_type.reset();
    if (shape.window == 0) continue;
    const Problem step(shape, turn);
    const uint32_t t = random() % shape.fresh;
    Problem answer = step;
    answer.shape.past += t;
    answer.shape.fresh = 1;
    const Layout before(step, 0, 100, random), after(answer, 0, 100, random);
    for (const Set& set : sets()) {
      const Floats all = attend(set.table, before.view, step.queries(0, shape.fresh));
      const Floats one = attend(set.table, after.view, answer.queries(0, 1));
      ASSERT_EQ(0, std::memcmp(&all[size_t{t} * shape.group * shape.v_dim], one.data(),
                               one.size() * sizeof(float)))
          << set.name << " turn " << turn << " window " << shape.window << " token " << t;
    }
  }
}

// Whether NaN survives in the types of values: in all but the static ones.
bool shows_nan(const Shape& shape) {
  return !is_static(shape.type(0, true)) && !is_static(shape.type(shape.past, true));
}

TEST(AttentionWindows, AWindowOfAllRowsGivesTheBitsOfNone) {
  std::mt19937 random(11);
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    Shape shape = shape_of(turn, random);
    shape.chunked = false;
    const Problem p(shape, turn);
    const Layout layout(p, 0, 100, random);
    Queries all = p.queries(0, shape.fresh), none = all;
    all.window = shape.past + shape.fresh;
    none.window = 0;
    for (const Set& set : sets())
      ASSERT_EQ(attend(set.table, layout.view, all), attend(set.table, layout.view, none))
          << set.name << " turn " << turn;
  }
}

TEST(AttentionWindows, RowsThatATokenDoesNotSeeMayHoldAnything) {
  std::mt19937 random(4);
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    Shape shape = shape_of(turn, random);
    if (shape.window == 0) continue;
    const Problem clean(shape, turn);
    Problem dirty = clean;
    std::vector<bool> spoiled(shape.past + shape.fresh);
    for (uint32_t row = 0; row < spoiled.size(); ++row) {
      if (random() % 40 > 0) continue;
      if (row < shape.kivi_rows()) continue;  // NaN would spoil its whole group
      spoiled[row] = true;
      std::fill_n(&dirty.k_given[size_t{row} * shape.k_dim], shape.k_dim, kInf * 0);
      std::fill_n(&dirty.v_given[size_t{row} * shape.v_dim], shape.v_dim, kInf * 0);
    }
    const Layout a(clean, 0, 100, random), b(dirty, 0, 100, random);
    for (const Set& set : sets()) {
      const Floats expected = attend(set.table, a.view, clean.queries(0, shape.fresh));
      const Floats out = attend(set.table, b.view, clean.queries(0, shape.fresh));
      const size_t size = size_t{shape.group} * shape.v_dim;
      for (uint32_t t = 0; t < shape.fresh; ++t) {
        const auto rows = rows_of_token(clean, t);
        if (std::any_of(rows.begin(), rows.end(), [&](uint32_t row) { return spoiled[row]; })) {
          ASSERT_TRUE(!shows_nan(shape) || std::isnan(out[t * size])) << set.name << " " << turn;
          continue;
        }
        ASSERT_EQ(0, std::memcmp(&expected[t * size], &out[t * size], size * sizeof(float)))
            << set.name << " turn " << turn << " token " << t;
      }
    }
  }
}

// The step's first tokens see committed rows, which are of another type. Later tokens have a later
// first chunk than the step.
TEST(AttentionWindows, AStepWhoseFirstTokensSeeTwoTypesEqualsTheDefinition) {
  std::mt19937 random(10);
  for (const DType type : {DType::kF16, DType::kF32, DType::kQ4}) {
    const Problem p({.past = 300,
                     .fresh = 130,
                     .group = 2,
                     .k_type = type,
                     .v_type = type,
                     .window = 100,
                     .fresh_type = DType::kBF16},
                    12);
    const Layout layout(p, 200, 30, random);
    for (const Set& set : sets()) {
      const Floats all = attend(set.table, layout.view, p.queries(0, 130));
      expect_close(p, all, set);
      for (uint32_t t = 0; t < 130; ++t) {
        const Floats one = attend(set.table, layout.view, p.queries(t, 1));
        ASSERT_EQ(0, std::memcmp(&all[size_t{t} * 128], one.data(), 128 * sizeof(float)))
            << set.name << " token " << t;
      }
    }
  }
}

// -- missing rows and rows that are not read ------------------------------------------------------

TEST(AttentionWindows, MissingPositionsAreRowsThatNobodySees) {
  std::mt19937 random(5);
  for (const DType type : {DType::kF16, DType::kQ8}) {
    const Problem p({.past = 600, .fresh = 20, .group = 2, .k_type = type, .window = 300}, 7);
    const std::vector<kernels::Run> kept = {
        {300, 20, 300}, {400, 3, 400}, {513, 60, 513}, {580, 1, 580}};
    const Layout all(p, 0, 1000, random);
    Layout sparse = all;
    Part plain;  // row = position
    p.store(0, 600, 100000, random, plain);
    while (plain.runs.size() > 1) {
      plain = Part{};
      p.store(0, 600, 100000, random, plain);
    }
    std::vector<kernels::Run> runs = kept;
    for (kernels::Run& run : runs) run.row += plain.runs[0].row;
    sparse.view.past.clear();
    sparse.view.past.push_back(plain.segment);
    sparse.view.past[0].runs = runs;
    for (const Set& set : sets()) {
      const Floats out = attend(set.table, sparse.view, p.queries(0, 20));
      for (uint32_t t = 0; t < 20; ++t) {
        std::vector<uint32_t> rows = rows_of_token(p, t);
        std::erase_if(rows, [&](uint32_t row) {
          return row < 600 && std::none_of(kept.begin(), kept.end(), [&](const kernels::Run& run) {
                   return row >= run.pos && row < run.pos + run.rows;
                 });
        });
        const auto expected = naive(p, rows, t, 1);
        const double bound = 1e-5 + 8 * (logit_rounding(p, set) + set.weights);
        for (uint32_t d = 0; d < 64; ++d)
          ASSERT_NEAR(out[(t * 2 + 1) * 64 + d], expected[d], bound) << set.name << " " << t;
      }
    }
  }
}

TEST(AttentionWindows, CostTheChunksInsideThem) {
  const auto chunks = [](Queries q, uint32_t tokens, uint32_t position) {
    View view;
    const kernels::Run past = {0, position, 0}, fresh = {0, tokens, position};
    view.past.push_back({});
    view.past[0].runs = {&past, 1};
    view.fresh.runs = {&fresh, 1};
    q.tokens = tokens, q.position = position;
    return chunk_count(view, q);
  };
  EXPECT_EQ(chunks({}, 1, 8191), 32U);
  EXPECT_EQ(chunks({.window = 512}, 1, 8191), 2U);
  EXPECT_EQ(chunks({.window = 512}, 1, 8192), 3U);
  EXPECT_EQ(chunks({.window = 512}, 512, 8192), 4U);
  EXPECT_EQ(chunks({.window = 8192, .chunked = true}, 1, 8192), 1U);
  EXPECT_EQ(chunks({.window = 8192, .chunked = true}, 1, 8191), 32U);
  EXPECT_EQ(chunks({.window = 1}, 1, 0), 1U);
  const Queries late = {.first = 100, .tokens = 4, .window = 64, .position = 5000};
  EXPECT_EQ(first_seen(late), 5037U);
  EXPECT_EQ(first_place(late), 4864U);
}

TEST(AttentionWindows, ProbabilitiesLieAtThePlacesOfTheirPositions) {
  std::mt19937 random(6);
  const Problem p(
      {.past = 700, .fresh = 3, .k_type = DType::kF32, .v_type = DType::kF32, .window = 300}, 8);
  const Layout layout(p, 390, 20, random);
  const Queries queries = p.queries(0, 3);
  EXPECT_EQ(first_place(queries), 256U);
  for (const Set& set : sets())
    for (uint32_t chunk = 0; chunk < chunk_count(layout.view, queries); ++chunk) {
      Floats probs(3 * kChunkRows, 5), max(3), sum(3), acc(3 * 64);
      set.table.attend_chunk(layout.view, queries, chunk, {max.data(), sum.data(), acc.data()},
                             probs.data());
      for (uint32_t i = 0; i < 3 * kChunkRows; ++i) {
        const uint32_t t = i / kChunkRows, at = 256 + chunk * kChunkRows + i % kChunkRows;
        const bool seen = at <= 700 + t && at + 300 > 700 + t;
        EXPECT_EQ(probs[i] > 0, seen) << set.name << " token " << t << " position " << at;
      }
    }
}

// -- sinks ----------------------------------------------------------------------------------------

TEST(AttentionSinks, TakeAllOfTheWeightIfTheyAreLargeAndNoneIfTheyAreSmall) {
  std::mt19937 random(7);
  Problem p({.past = 300, .fresh = 2, .group = 3, .sinks = true}, 9);
  const Layout layout(p, 0, 100, random);
  p.sinks = {1000, -1000, -kInf};
  for (const Set& set : sets()) {
    const Floats out = attend(set.table, layout.view, p.queries(0, 2));
    Queries plain = p.queries(0, 2);
    plain.sinks = nullptr;
    const Floats without = attend(set.table, layout.view, plain);
    for (uint32_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(out[i], i / 64 % 3 == 0 ? 0 : without[i]) << set.name;
  }
}

TEST(AttentionSinks, AQueryThatSeesNoRowGivesZeros) {
  std::mt19937 random(8);
  Problem p({.past = 0, .fresh = 2, .group = 2, .tree = true, .sinks = true}, 10);
  p.lists[0] = {};
  const Layout layout(p, 0, 100, random);
  for (const Set& set : sets())
    for (const float sink : {-kInf, 0.0F, 100.0F}) {
      p.sinks = {sink, sink};
      const Floats out = attend(set.table, layout.view, p.queries(0, 2));
      for (uint32_t i = 0; i < 2 * 64; ++i) EXPECT_EQ(out[i], 0) << set.name;
    }
}

// -- invalid inputs -------------------------------------------------------------------------------

TEST(AttentionLatent, WhatItCannotTakeIsABug) {
  std::mt19937 random(9);
  const Problem p({.past = 30,
                   .k_dim = 96,
                   .k_type = DType::kQ8,
                   .v_type = DType::kQ8,
                   .latent = true,
                   .window = 8},
                  11);
  const Layout layout(p, 0, 9, random);
  Floats space(4096);
  const Partial out{space.data(), space.data() + 1, space.data() + 2};
  for (const Set& set : sets()) {
    const auto refuses = [&](auto change) {
      Queries queries = p.queries(0, 1);
      View view = layout.view;
      change(queries, view);
      EXPECT_THROW(set.table.attend_chunk(view, queries, 0, out, nullptr), base::Bug) << set.name;
    };
    refuses([](Queries& q, View&) { q.v_dim = 40; });   // no whole blocks
    refuses([](Queries& q, View&) { q.v_dim = 128; });  // longer than the key
    refuses([](Queries&, View& v) { v.fresh.v_type = DType::kF16; });
    refuses([](Queries&, View& v) { v.fresh.v_stride += 8; });
    refuses([](Queries& q, View&) { q.position = 20; });  // then committed rows are behind it
    refuses([](Queries&, View& v) { std::swap(v.past[0], v.past[1]); });
  }
}

}  // namespace
}  // namespace kvick::kernels
