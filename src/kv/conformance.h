#pragma once
// What the conformance tests share: rows whose every value follows from a number, and the trivial
// model of a store, which is a list of such numbers per sequence.

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "kv/registry.h"

namespace kvick::kv::test {

// A row is a number; this is its value in one place, never 0, of either sign.
inline float value_of(uint32_t row, uint32_t layer, uint32_t head, bool is_v, uint32_t i) {
  uint32_t x = row * 2654435761u ^ layer * 40503u ^ head * 69069u ^ (is_v ? 77777u : 0) ^ i * 1013u;
  x = (x ^ x >> 15) * 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x % 4096) + 0.5f) / 512.0f - 4.0f;
}

using Row = uint32_t;
using Rows = std::vector<Row>;

// The keys or values of one head, as bytes in the store's element type.
inline std::vector<std::byte> bytes_of(const Shape& shape, const Rows& rows, uint32_t layer,
                                       uint32_t head, bool is_v) {
  std::vector<float> row(shape.head_dim);
  const size_t bytes = kernels::dtype_bytes(shape.dtype, shape.head_dim);
  std::vector<std::byte> all(rows.size() * bytes);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (uint32_t i = 0; i < shape.head_dim; ++i) row[i] = value_of(rows[r], layer, head, is_v, i);
    kernels::from_f32(shape.dtype, row.data(), row.size(), all.data() + r * bytes);
  }
  return all;
}

// Writes the given fresh rows of all slots, in batch order, as a model would.
inline void write_layer(Step& step, const Shape& shape, const Rows& rows, uint32_t layer) {
  std::vector<float> k, v;
  for (const Row row : rows)
    for (uint32_t head = 0; head < shape.kv_heads; ++head)
      for (uint32_t i = 0; i < shape.head_dim; ++i) {
        k.push_back(value_of(row, layer, head, false, i));
        v.push_back(value_of(row, layer, head, true, i));
      }
  step.write(layer, k.data(), v.data());
}

inline void write_all(Step& step, const Shape& shape, const Rows& rows) {
  for (uint32_t layer = 0; layer < shape.layers; ++layer) write_layer(step, shape, rows, layer);
}

inline void append(const kernels::Segment& segment, bool is_v, size_t row_bytes,
                   std::vector<std::byte>& out) {
  const std::byte* data = is_v ? segment.v : segment.k;
  const uint32_t stride = is_v ? segment.v_stride : segment.k_stride;
  for (const kernels::Run& run : segment.runs)
    for (uint32_t i = 0; i < run.rows; ++i) {
      const std::byte* row = data + size_t{run.row + i} * stride;
      out.insert(out.end(), row, row + row_bytes);
    }
}

// All rows of a view in order, as bytes: committed, then fresh.
inline std::vector<std::byte> gather(const kernels::View& view, const Shape& shape, bool is_v) {
  const size_t row_bytes = kernels::dtype_bytes(shape.dtype, shape.head_dim);
  std::vector<std::byte> out;
  for (const kernels::Segment& segment : view.past) append(segment, is_v, row_bytes, out);
  append(view.fresh, is_v, row_bytes, out);
  return out;
}

// Positions of the committed rows, in order.
inline Rows positions(const kernels::View& view) {
  Rows all;
  for (const kernels::Segment& segment : view.past)
    for (const kernels::Run& run : segment.runs)
      for (uint32_t i = 0; i < run.rows; ++i) all.push_back(run.pos + i);
  return all;
}

// Expects that one slot shows `rows`, of which the last `fresh` are this step's.
inline void expect_shows(Step& step, const Shape& shape, uint32_t slot, const Rows& rows,
                         uint32_t fresh) {
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view({.slot = slot, .layer = layer, .head = head}, scratch, view);
      ASSERT_EQ(kernels::rows_of(view.fresh), fresh);
      for (const bool is_v : {false, true})
        ASSERT_TRUE(gather(view, shape, is_v) == bytes_of(shape, rows, layer, head, is_v))
            << "slot " << slot << " layer " << layer << " head " << head << (is_v ? " v" : " k");
      Rows expected(rows.size() - fresh);
      for (uint32_t i = 0; i < expected.size(); ++i) expected[i] = i;
      ASSERT_EQ(positions(view), expected);
    }
}

// A store beside its trivial model. Every call goes to both.
struct Pair {
  Pair(const std::string& text, const Shape& shape_of_all, uint64_t max_bytes = UINT64_MAX)
      : shape(shape_of_all) {
    auto spec = parse_spec(text);
    auto made = make_store(spec.value(), {.shape = shape, .max_bytes = max_bytes});
    if (!made.ok()) ADD_FAILURE() << made.error().message;
    store = std::move(made).value();
  }

  SeqId open() {
    const SeqId seq = store->open({}).seq;
    twin[seq];
    return seq;
  }
  void close(SeqId seq) {
    store->close(seq);
    twin.erase(seq);
  }
  // Invents rows for the slots; null if there is no room.
  std::unique_ptr<Step> begin(std::vector<Slot> wanted) {
    slots = std::move(wanted);
    auto step = store->begin({slots});
    if (!step.ok()) {
      shortage = step.error();
      return nullptr;
    }
    fresh.clear();
    for (const Slot& slot : slots)
      for (uint32_t i = 0; i < slot.fresh; ++i) fresh.push_back(next_row++);
    return std::move(step).value();
  }
  void commit(Step& step, const Kept& kept) {
    step.commit(kept);
    size_t first = 0;
    for (size_t s = 0; s < slots.size(); first += slots[s++].fresh)
      for (const uint32_t row : kept.rows[s]) twin[slots[s].seq].push_back(fresh[first + row]);
  }
  // Rows that slot s should show: what is committed, then its fresh ones.
  Rows shown(uint32_t s) const {
    size_t first = 0;
    for (uint32_t i = 0; i < s; ++i) first += slots[i].fresh;
    Rows rows = twin.at(slots[s].seq);
    rows.insert(rows.end(), fresh.begin() + first, fresh.begin() + first + slots[s].fresh);
    return rows;
  }
  void expect_all_shown(Step& step) const {
    for (uint32_t s = 0; s < slots.size(); ++s)
      expect_shows(step, shape, s, shown(s), slots[s].fresh);
  }
  // One whole step that keeps everything.
  void add(SeqId seq, uint32_t rows) {
    auto step = begin({{seq, rows}});
    ASSERT_NE(step, nullptr) << shortage.what;
    write_all(*step, shape, fresh);
    commit(*step, Kept::all({slots}));
  }
  // Looks at the committed rows of every sequence through steps that are dropped.
  void expect_contents() {
    for (const auto& [seq, rows] : twin) {
      ASSERT_EQ(store->length(seq), rows.size());
      if (rows.empty() || rows.size() == shape.max_tokens) continue;
      auto step = begin({{seq, 1}});
      ASSERT_NE(step, nullptr) << shortage.what;
      write_all(*step, shape, fresh);
      expect_all_shown(*step);
    }
  }

  Shape shape;
  std::unique_ptr<Store> store;
  std::map<SeqId, Rows> twin;
  std::vector<Slot> slots;  // of the last begin
  Rows fresh;               // its rows, in batch order
  Shortage shortage;        // of the last begin that failed
  Row next_row = 1;
};

// Every row of the registry, with its defaults and with options worth trying, in every element
// type.
struct Case {
  std::string spec;
  kernels::DType dtype;
};

inline void PrintTo(const Case& test, std::ostream* out) {  // NOLINT: googletest's name
  *out << test.spec << " " << kernels::dtype_info(test.dtype).name;
}

inline std::vector<std::string> specs() {
  std::vector<std::string> all;
  for (const Strategy& strategy : strategies()) all.emplace_back(strategy.name);
  for (const char* more : {"virtual:hugepages=on", "bmc:r=1", "bmc:r=7", "bmc:r=100000"})
    all.emplace_back(more);
  return all;
}

inline std::vector<Case> cases() {
  using kernels::DType;
  std::vector<Case> all;
  for (const std::string& spec : specs())
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) all.push_back({spec, dtype});
  return all;
}

inline std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name =
      info.param.spec + "_" + std::string(kernels::dtype_info(info.param.dtype).name);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

inline const Traits& traits_of(const std::string& spec) {
  return find_strategy(parse_spec(spec).value().name)->traits;
}

// Why a spec cannot be tried on this machine, or "".
inline std::string unavailable(const std::string& spec) {
  if (spec.find("hugepages=on") == std::string::npos) return "";
  auto made = make_store(parse_spec(spec).value(), {.shape = {1, 1, 1, 1}});
  return made.ok() ? "" : made.error().message;
}

}  // namespace kvick::kv::test
