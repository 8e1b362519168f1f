// Filters over sequences: sorting, grouping, first and last, joining, adding up.
#include <algorithm>
#include <unordered_set>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"
#include "text/template/eval.h"
#include "text/template/filters_attribute.h"

namespace kvick::text::jinja {
namespace {

bool is_generator(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence().flavour == Flavour::kGenerator;
}

Value first(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|first", arguments, {"seq"}, 1);
  if (is_generator(bound[0])) {
    const Sequence& sequence = bound[0].sequence();
    if (sequence.next < sequence.items.size()) return sequence.items[sequence.next++];
  } else if (bound[0].is(Kind::kSequence)) {
    if (!bound[0].sequence().items.empty()) return bound[0].sequence().items.front();
  } else if (Values items = items_of(bound[0], evaluator.heap()); !items.empty()) {
    return items.front();
  }
  return make_undefined(evaluator.heap(), "|first of something empty is undefined");
}

Value last(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|last", arguments, {"seq"}, 1);
  if (is_generator(bound[0])) fail("|last does not work on a generator; use |list first");
  if (bound[0].is(Kind::kUndefined)) fail_undefined(bound[0]);
  Values items = items_of(bound[0], evaluator.heap());
  if (!items.empty()) return items.back();
  return make_undefined(evaluator.heap(), "|last of something empty is undefined");
}

Value list(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|list", arguments, {"value"}, 1);
  return make_list(evaluator.heap(), items_of(bound[0], evaluator.heap()));
}

Value items(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|items", arguments, {"value"}, 1);
  Values pairs;
  if (!bound[0].is(Kind::kUndefined)) {
    if (!bound[0].is(Kind::kDict)) fail("|items needs a dict, not {}", type_name(bound[0]));
    for (const auto& [key, value] : bound[0].dict().entries)
      pairs.push_back(make_tuple(evaluator.heap(), {key, value}));
  }
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(pairs));
}

Value reverse(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|reverse", arguments, {"value"}, 1);
  Values items = items_of(bound[0], evaluator.heap());
  std::reverse(items.begin(), items.end());
  if (bound[0].is(Kind::kString)) {
    std::string text;
    for (const Value& c : items) text += c.text();
    return evaluator.string(std::move(text), bound[0].str().markup);
  }
  const Flavour flavour = is_generator(bound[0]) || bound[0].is(Kind::kUndefined)
                              ? Flavour::kList
                              : Flavour::kGenerator;
  return make_sequence(evaluator.heap(), flavour, std::move(items));
}

Value join(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|join", arguments, {"value", "d", "attribute"}, 1);
  const std::string separator = bound.given(1) ? evaluator.text_of(bound[1]) : "";
  Values values = items_of(bound[0], evaluator.heap());
  std::string out;
  bool begun = false;
  for (const Value& value : values) {
    std::string piece =
        evaluator.text_of(bound.missing(2) ? value : AttributePath(bound[2]).of(evaluator, value));
    evaluator.heap().scan(separator.size() + piece.size());
    evaluator.heap().expect(out.size() + separator.size() + piece.size());
    if (begun) out += separator;
    out += piece;
    begun = true;
  }
  return evaluator.string(std::move(out));
}

// Pairs of a sort key and a value.
using Keyed = std::vector<Entry>;

void sort_by_key(Evaluator& evaluator, Keyed& keyed, bool reversed) {
  Heap& heap = evaluator.heap();
  heap.scan(keyed.size() * sizeof(Entry));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Entry& a, const Entry& b) {
    return reversed ? less(b.first, a.first, heap) : less(a.first, b.first, heap);
  });
}

Values sorted(Evaluator& evaluator, Keyed keyed, bool reversed) {
  sort_by_key(evaluator, keyed, reversed);
  Values values;
  for (Entry& entry : keyed) values.push_back(std::move(entry.second));
  return values;
}

Value dictsort(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|dictsort", arguments, {"value", "case_sensitive", "by", "reverse"}, 1);
  if (bound[0].is(Kind::kUndefined)) fail_undefined(bound[0]);
  if (!bound[0].is(Kind::kDict)) fail("|dictsort needs a dict, not {}", type_name(bound[0]));
  const std::string_view by = bound.string(2, "key");
  if (by != "key" && by != "value") fail("|dictsort sorts by key or value, not by {}", by);
  Keyed keyed;
  for (const auto& [key, value] : bound[0].dict().entries) {
    const Value& chosen = by == "key" ? key : value;
    keyed.emplace_back(bound.flag(1, false) ? chosen : without_case(evaluator, chosen),
                       make_tuple(evaluator.heap(), {key, value}));
  }
  return make_list(evaluator.heap(), sorted(evaluator, std::move(keyed), bound.flag(3, false)));
}

Value sort(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|sort", arguments, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const bool by_case = bound.flag(2, false);
  std::vector<AttributePath> paths;
  if (!bound.missing(3) && bound[3].is(Kind::kString)) {
    for (std::string_view part : split(bound[3].text(), ",", -1, false)) paths.emplace_back(part);
  } else if (!bound.missing(3)) {
    paths.emplace_back(bound[3]);
  } else {
    paths.emplace_back();
  }
  Keyed keyed;
  for (const Value& value : items_of(bound[0], evaluator.heap())) {
    Values keys;
    for (const AttributePath& path : paths) {
      Value key = path.of(evaluator, value);
      keys.push_back(by_case ? key : without_case(evaluator, key));
    }
    keyed.emplace_back(make_list(evaluator.heap(), std::move(keys)), value);
  }
  return make_list(evaluator.heap(), sorted(evaluator, std::move(keyed), bound.flag(1, false)));
}

constexpr std::string_view kGroupNames[] = {"grouper", "list"};

Value group_by(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|groupby", arguments, {"value", "attribute", "default", "case_sensitive"}, 2);
  Heap& heap = evaluator.heap();
  const AttributePath path = bound.missing(1) ? AttributePath() : AttributePath(bound[1]);
  const Value* fallback = bound.missing(2) ? nullptr : bound.at(2);
  Keyed keyed;
  for (const Value& value : items_of(bound[0], heap)) {
    Value key = path.of(evaluator, value, fallback);
    keyed.emplace_back(bound.flag(3, false) ? key : without_case(evaluator, key), value);
  }
  sort_by_key(evaluator, keyed, false);
  Values groups;
  for (size_t at = 0; at < keyed.size();) {
    const size_t begin = at;
    Values members;
    while (at < keyed.size() && equal(keyed[begin].first, keyed[at].first, heap))
      members.push_back(keyed[at++].second);
    // A NaN does not equal itself.
    if (members.empty()) members.push_back(keyed[at++].second);
    // The group is named as its first member writes the key, not in lower case.
    Value grouper = path.of(evaluator, members[0], fallback);
    Values pair = {std::move(grouper), make_list(heap, std::move(members))};
    auto* group = new Sequence(heap, Flavour::kTuple, std::move(pair));
    group->names = kGroupNames;
    groups.emplace_back(Kind::kSequence, group);
  }
  return make_list(heap, std::move(groups));
}

Value unique(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|unique", arguments, {"value", "case_sensitive", "attribute"}, 1);
  AttributePath path = bound.missing(2) ? AttributePath() : AttributePath(bound[2]);
  Values kept, others;
  std::unordered_set<std::string> texts;
  for (const Value& value : items_of(bound[0], evaluator.heap())) {
    Value key = path.of(evaluator, value);
    if (key.is(Kind::kString)) {
      Value text = bound.flag(1, false) ? key : without_case(evaluator, key);
      evaluator.heap().work(2);
      if (texts.emplace(text.text()).second) kept.push_back(value);
      continue;
    }
    if (key.is(Kind::kDict) ||
        (key.is(Kind::kSequence) && key.sequence().flavour == Flavour::kList))
      fail("|unique does not work on a {}", type_name(key));
    bool seen = false;
    for (size_t i = 0; i < others.size() && !seen; ++i)
      seen = equal(others[i], key, evaluator.heap());
    if (seen) continue;
    others.push_back(key);
    kept.push_back(value);
  }
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(kept));
}

Value extreme(Evaluator& evaluator, const CallArguments& arguments, bool greatest) {
  Bound bound("|min or |max", arguments, {"value", "case_sensitive", "attribute"}, 1);
  AttributePath path = bound.missing(2) ? AttributePath() : AttributePath(bound[2]);
  Value best, best_key;
  bool any = false;
  for (const Value& value : items_of(bound[0], evaluator.heap())) {
    Value key = path.of(evaluator, value);
    if (!bound.flag(1, false)) key = without_case(evaluator, key);
    if (any &&
        !(greatest ? less(best_key, key, evaluator.heap()) : less(key, best_key, evaluator.heap())))
      continue;
    best = value;
    best_key = key;
    any = true;
  }
  return any ? best
             : make_undefined(evaluator.heap(), "the least or greatest of nothing is undefined");
}

Value min_filter(Evaluator& evaluator, const CallArguments& arguments) {
  return extreme(evaluator, arguments, false);
}

Value max_filter(Evaluator& evaluator, const CallArguments& arguments) {
  return extreme(evaluator, arguments, true);
}

Value sum(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|sum", arguments, {"iterable", "attribute", "start"}, 1);
  Value total = bound.given(2) ? bound[2] : Value::integer(0);
  if (total.is(Kind::kString)) fail("|sum does not add strings; use |join");
  AttributePath path = bound.missing(1) ? AttributePath() : AttributePath(bound[1]);
  for (const Value& value : items_of(bound[0], evaluator.heap()))
    total = binary(BinaryOp::kAdd, total, path.of(evaluator, value), evaluator.heap());
  return total;
}

Value batch(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|batch", arguments, {"value", "linecount", "fill_with"}, 2);
  const int64_t size = bound.integer(1, 1);
  if (size < 1) fail("|batch needs a size of at least 1, not {}", size);
  const auto width = static_cast<size_t>(size);
  Values rows, row;
  for (Value& value : items_of(bound[0], evaluator.heap())) {
    if (row.size() == width) rows.push_back(make_list(evaluator.heap(), std::exchange(row, {})));
    row.push_back(std::move(value));
  }
  if (!row.empty()) {
    if (!bound.missing(2)) {
      evaluator.heap().expect((width - row.size()) * sizeof(Value));
      row.resize(width, bound[2]);
    }
    rows.push_back(make_list(evaluator.heap(), std::move(row)));
  }
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(rows));
}

Value slice_filter(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|slice", arguments, {"value", "slices", "fill_with"}, 2);
  const Values items = items_of(bound[0], evaluator.heap());
  const int64_t count = bound.integer(1, 1);
  if (count == 0) fail("|slice needs a number of slices that is not 0");
  Values slices;
  for (int64_t i = 0, at = 0; i < count; ++i) {
    const auto size = static_cast<int64_t>(items.size());
    const bool longer = i < size % count;
    const int64_t end = at + size / count + (longer ? 1 : 0);
    Values part(items.begin() + at, items.begin() + end);
    // As in Jinja2, equally long slices are all filled.
    if (!longer && !bound.missing(2)) part.push_back(bound[2]);
    slices.push_back(make_list(evaluator.heap(), std::move(part)));
    at = end;
  }
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(slices));
}

constexpr FunctionRow kFilters[] = {
    {"first", first},   {"last", last},          {"list", list},         {"items", items},
    {"join", join},     {"reverse", reverse},    {"dictsort", dictsort}, {"sort", sort},
    {"unique", unique}, {"min", min_filter},     {"max", max_filter},    {"sum", sum},
    {"batch", batch},   {"slice", slice_filter}, {"groupby", group_by},
};

}  // namespace

std::span<const FunctionRow> sequence_filters() { return kFilters; }

}  // namespace kvick::text::jinja
