#include "kv/testing/store_and_twin.h"

#include <algorithm>
#include <cmath>

#include "kv/testing/policies.h"
#include "kv/testing/shown_some.h"
#include "kv/testing/slots_twin.h"

namespace kvick::kv::test {
namespace {

uint32_t together_of(const Spec& select, const Shape& shape) {
  if (select.name == "duo") return shape.layers * shape.kv_heads;
  const auto heads = select.options.find("heads");
  return heads != select.options.end() && heads->second == "ada" ? shape.kv_heads : 1;
}

}  // namespace

Pair::Pair(const std::string& text, const Shape& shape_of_all, uint64_t max_bytes,
           std::shared_ptr<Budget> budget)
    : spec(text),
      shape(shape_of_all),
      shows_rows(!traits_of(text).slots),
      shows_all(find_strategy(spec_of(text).name)->traits.exact && select_of(text).name.empty()),
      forgets(traits_of(text).forgets),
      together(together_of(select_of(text), shape_of_all)),
      selection(kTriedSelection) {
  Setup setup = setup_for(text, shape, max_bytes);
  setup.limits.budget = std::move(budget);
  auto made = make_store(spec_of(text), setup);
  if (!made.ok()) ADD_FAILURE() << made.error().message;
  store = std::move(made).value();
  if (traits_of(text).endless && !forgets) most_held = shape.max_tokens - 1;
  const Policy* policy = find_policy(select_of(text).name);
  if (policy != nullptr && has_option(*policy, "page")) selection.unit = kTriedPage;
}

SeqId Pair::open() {
  const SeqId seq = store->open({}).seq;
  twin[seq];
  fed[seq];
  return seq;
}

SeqId Pair::fork(SeqId seq) {
  const SeqId forked = store->fork(seq).value();
  twin[forked] = twin.at(seq);
  fed[forked] = fed.at(seq);
  return forked;
}

void Pair::close(SeqId seq) {
  store->close(seq);
  twin.erase(seq);
  fed.erase(seq);
}

std::unique_ptr<Step> Pair::begin(std::vector<Slot> wanted) {
  slots = std::move(wanted);
  observed = false;
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

void Pair::observe(Step& step) {
  observed = true;
  Observer* const observer = step.facets().observer;
  if (observer == nullptr) return;
  base::Arena scratch;
  kernels::View view;
  for (uint32_t s = 0; s < slots.size(); ++s)
    for (uint32_t layer = 0; layer < shape.layers; ++layer)
      for (uint32_t head = 0; head < shape.kv_heads; ++head) {
        const Query query = query_of(s, layer, head);
        step.view(query, scratch, view);
        std::vector<float> probs(probs_of(*observer, layer, view));
        for (uint32_t i = 0; i < probs.size(); ++i)
          probs[i] = std::abs(value_of(committed(s) + i, layer, head, false, 99)) / 4;
        observer->observe(query, view, probs);
      }
}

void Pair::commit(Step& step, const Kept& kept) {
  step.commit(kept);
  size_t first = 0;
  for (size_t s = 0; s < slots.size(); first += slots[s++].fresh) {
    const auto begin = fresh.begin() + static_cast<ptrdiff_t>(first);
    for (const uint32_t row : kept.rows[s]) twin[slots[s].seq].push_back(begin[row]);
    fed[slots[s].seq].push_back({{begin, begin + slots[s].fresh}, kept.rows[s], observed});
  }
}

void Pair::add(SeqId seq, uint32_t rows) {
  auto step = begin({{seq, rows}});
  ASSERT_NE(step, nullptr) << shortage.what;
  write_all(*step, shape, fresh);
  observe(*step);
  commit(*step, Kept::all({slots}));
}

std::vector<std::byte> Pair::read(SeqId seq, uint32_t first, uint32_t count) const {
  std::vector<std::byte> bytes(count * shape.token_bytes());
  store->facets().rows->read_rows(seq, first, count, bytes);
  return bytes;
}

bool Pair::append(SeqId seq, const Rows& rows, std::span<const std::byte> bytes) {
  const std::vector<Token> tokens(rows.begin(), rows.end());
  const auto appended = append_rows(*store, seq, tokens, bytes);
  if (!appended.ok()) {
    shortage = appended.error();
    return false;
  }
  twin[seq].insert(twin[seq].end(), rows.begin(), rows.end());
  if (rows.empty()) return true;
  const Slot slot = {.seq = seq, .fresh = static_cast<uint32_t>(rows.size())};
  fed[seq].push_back({rows, Kept::all({{&slot, 1}}).rows[0]});
  return true;
}

Rows Pair::held(SeqId seq) const {
  const Rows& all = twin.at(seq);
  const ptrdiff_t seen = std::ssize(all) - shape.first_seen(static_cast<uint32_t>(all.size()));
  return {all.end() - std::min<ptrdiff_t>(seen, most_held), all.end()};
}

Rows Pair::shown(uint32_t s) const {
  size_t first = 0;
  for (uint32_t i = 0; i < s; ++i) first += slots[i].fresh;
  Rows rows = held(slots[s].seq);
  rows.insert(rows.end(), fresh.begin() + first, fresh.begin() + first + slots[s].fresh);
  return rows;
}

std::vector<std::byte> Pair::bytes_shown(uint32_t s, uint32_t layer, uint32_t head,
                                         bool is_v) const {
  return bytes_of(shape, shown(s), layer, head, is_v,
                  shape.aging ? shape.aging->old_rows(committed(s)) : 0);
}

void Pair::expect_shown(Step& step) const {
  for (uint32_t layer = 0; layer < shape.layers && !shows_rows; ++layer)
    expect_slots_read(step, layer);
  for (uint32_t s = 0; s < slots.size() && shows_rows; ++s) {
    const Shown what = {s, committed(s), together};
    if (shows_all)
      expect_shows(step, shape, what, shown(s), slots[s].fresh);
    else if (forgets)
      expect_shows_left(step, shape, what, shown(s), selection);
    else
      expect_shows_some(step, shape, what, shown(s), selection.of(what.committed));
    if (testing::Test::HasFatalFailure()) return;
  }
}

void Pair::expect_slots_read(Step& step, uint32_t layer) const {
  const std::vector<float> read = read_layer(step, shape, fresh, layer);
  Doubles expected;
  for (uint32_t s = 0; s < slots.size(); ++s) {
    const Doubles some = naive_reads(made_slots(shape), layer, shown(s), slots[s].fresh);
    expected.insert(expected.end(), some.begin(), some.end());
  }
  ASSERT_EQ(read.size(), expected.size());
  for (size_t i = 0; i < read.size(); ++i)
    ASSERT_NEAR(read[i], expected[i], 1e-4 * (1 + std::abs(expected[i])))
        << "layer " << layer << " at " << i;
}

void Pair::expect_contents() {
  for (const auto& [seq, rows] : twin) {
    ASSERT_EQ(store->length(seq), rows.size());
    if (rows.empty() || rows.size() == store->most_tokens()) continue;
    auto step = begin({{seq, 1}});
    ASSERT_NE(step, nullptr) << shortage.what;
    write_all(*step, shape, fresh);
    expect_shown(*step);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void Pair::expect_as_if_alone() {
  expect_contents();
  for (const auto& [seq, steps] : fed)
    if (!steps.empty() && twin.at(seq).size() < store->most_tokens()) expect_alone(seq);
}

void Pair::expect_alone(SeqId seq) {
  Pair other(spec, shape);
  const SeqId alone = other.open();
  for (const Fed& one : fed.at(seq)) {
    const auto step = other.begin({{alone, static_cast<uint32_t>(one.fresh.size())}});
    ASSERT_NE(step, nullptr) << other.shortage.what;
    other.fresh = one.fresh;
    write_all(*step, shape, other.fresh);
    if (one.observed) other.observe(*step);
    other.commit(*step, {.rows = {one.kept}});
  }
  const auto mine = begin({{seq, 1}}), its = other.begin({{alone, 1}});
  ASSERT_NE(mine, nullptr) << shortage.what;
  ASSERT_NE(its, nullptr) << other.shortage.what;
  other.fresh = fresh;
  write_all(*mine, shape, fresh);
  write_all(*its, shape, fresh);
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    if (shows_rows) {
      for (uint32_t head = 0; head < shape.kv_heads; ++head)
        ASSERT_TRUE(all_shown(*mine, shape, layer, head) == all_shown(*its, shape, layer, head))
            << "sequence " << static_cast<uint32_t>(seq) << " layer " << layer << " head " << head;
    } else {
      ASSERT_EQ(read_layer(*mine, shape, fresh, layer), read_layer(*its, shape, fresh, layer));
    }
}

}  // namespace kvick::kv::test
