// Reading parts of values: length, iteration, subscripts and slices.
#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

Value no_element(const Value& container, const Value& index, Heap& heap) {
  if (index.is(Kind::kString))
    return make_undefined(heap, fmt::format("'{} object' has no attribute {}", type_name(container),
                                            repr(index, heap)));
  std::string shown = index.is(Kind::kUndefined) ? "that is undefined" : repr(index, heap);
  return make_undefined(heap,
                        fmt::format("{} object has no element {}", type_name(container), shown));
}

bool is_indexable(const Sequence& sequence) { return sequence.flavour <= Flavour::kRange; }

// slice.indices(): the first index, the step and the number of items.
struct Stride {
  int64_t first, step;
  size_t count;
};

int64_t bound(const Value& given, int64_t missing, int64_t length, int64_t low, int64_t high) {
  if (given.is(Kind::kNone)) return missing;
  int64_t at = to_index(given, "a slice bound");
  if (at < 0) at = at < -length ? low : at + length;
  return std::clamp(at, low, high);
}

Stride stride(const Value& start, const Value& stop, const Value& step_value, int64_t length) {
  int64_t step = step_value.is(Kind::kNone) ? 1 : to_index(step_value, "a slice step");
  if (step == 0) fail("a slice step cannot be zero");
  const bool forward = step > 0;
  int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  int64_t first = bound(start, forward ? low : high, length, low, high);
  int64_t last = bound(stop, forward ? high : low, length, low, high);
  uint64_t span = forward ? (last > first ? static_cast<uint64_t>(last - first) : 0)
                          : (first > last ? static_cast<uint64_t>(first - last) : 0);
  uint64_t size = forward ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return {first, step, span == 0 ? 0 : static_cast<size_t>((span - 1) / size + 1)};
}

Value slice_string(const Value& value, const Stride& s, Heap& heap) {
  std::string_view text = value.text();
  heap.scan(text.size());
  if (s.step == 1) {
    size_t begin = byte_offset(text, static_cast<size_t>(s.first));
    size_t size = byte_offset(text.substr(begin), s.count);
    return make_string(heap, std::string(text.substr(begin, size)), value.str().markup);
  }
  heap.expect(text.size() * sizeof(char32_t));
  std::u32string points;
  for (size_t at = 0; at < text.size();) points += next_code_point(text, at);
  std::string out;
  int64_t at = s.first;
  for (size_t i = 0; i < s.count; ++i) {
    append_code_point(out, points[static_cast<size_t>(at)]);
    if (i + 1 < s.count) at += s.step;
  }
  return make_string(heap, std::move(out), value.str().markup);
}

}  // namespace

std::optional<int64_t> length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(value.str().length());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kSequence:
      if (value.sequence().flavour == Flavour::kGenerator) return std::nullopt;
      return static_cast<int64_t>(value.sequence().items.size());
    default:
      return std::nullopt;
  }
}

Values items_of(const Value& value, Heap& heap) {
  Values items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kString: {
      std::string_view text = value.text();
      heap.expect(value.str().length() * 128);
      for (size_t at = 0; at < text.size();) {
        size_t begin = at;
        next_code_point(text, at);
        items.push_back(make_string(heap, std::string(text.substr(begin, at - begin))));
      }
      return items;
    }
    case Kind::kDict:
      heap.scan(value.dict().entries.size() * sizeof(Value));
      for (const Entry& entry : value.dict().entries) items.push_back(entry.first);
      return items;
    case Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      heap.scan((sequence.items.size() - sequence.next) * sizeof(Value));
      items.assign(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.next),
                   sequence.items.end());
      if (sequence.flavour == Flavour::kGenerator) sequence.next = sequence.items.size();
      return items;
    }
    default:
      fail("a {} cannot be iterated over", type_name(value));
  }
}

Value subscript(const Value& container, const Value& index, Heap& heap) {
  if (container.is(Kind::kUndefined)) fail_undefined(container);
  if (container.is(Kind::kDict)) {
    if (index.is(Kind::kUndefined) || !hashable(index)) return no_element(container, index, heap);
    if (const Value* found = container.dict().find(index, heap)) return *found;
    return no_element(container, index, heap);
  }
  const bool indexable = container.is(Kind::kString) ||
                         (container.is(Kind::kSequence) && is_indexable(container.sequence()));
  if (!indexable || !index.is_integral()) return no_element(container, index, heap);
  int64_t at = index.as_int(), size = *length(container);
  if (at < -size || at >= size) return no_element(container, index, heap);
  if (at < 0) at += size;
  if (container.is(Kind::kSequence)) return container.sequence().items[static_cast<size_t>(at)];
  const Str& s = container.str();
  size_t begin = static_cast<size_t>(at), end = begin + 1;
  if (!s.ascii()) {
    heap.scan(s.text.size());
    begin = end = byte_offset(s.text, static_cast<size_t>(at));
    next_code_point(s.text, end);
  }
  return make_string(heap, s.text.substr(begin, end - begin), s.markup);
}

Value slice(const Value& container, const Value& start, const Value& stop, const Value& step,
            Heap& heap) {
  if (container.is(Kind::kUndefined)) fail_undefined(container);
  const bool sliceable = container.is(Kind::kString) ||
                         (container.is(Kind::kSequence) && is_indexable(container.sequence()));
  if (!sliceable) fail("a {} cannot be sliced", type_name(container));
  Stride s = stride(start, stop, step, *length(container));
  if (container.is(Kind::kString)) return slice_string(container, s, heap);
  const Sequence& from = container.sequence();
  heap.expect(s.count * sizeof(Value));
  Values items;
  int64_t at = s.first;
  for (size_t i = 0; i < s.count; ++i) {
    items.push_back(from.items[static_cast<size_t>(at)]);
    if (i + 1 < s.count) at += s.step;
  }
  Flavour flavour = from.flavour == Flavour::kRange ? Flavour::kList : from.flavour;
  return make_sequence(heap, flavour, std::move(items));
}

}  // namespace kvick::text::jinja
