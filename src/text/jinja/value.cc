#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

// Dictionaries with more entries than this get an index.
constexpr size_t kLinearEntries = 8;

int depth_of(const Values& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

int depth_of(const std::vector<Entry>& entries) {
  int depth = 0;
  for (const Entry& entry : entries)
    depth = std::max({depth, entry.first.depth(), entry.second.depth()});
  return depth + 1;
}

void check_hashable(const Value& key) {
  if (!hashable(key)) fail("a {} cannot be a key", type_name(key));
}

}  // namespace

Str::Str(Heap& heap, std::string s, bool is_markup)
    : Object(heap, s.size(), 1), text(std::move(s)), markup(is_markup) {}

size_t Str::length() const {
  if (length_ < 0) length_ = static_cast<int64_t>(count_code_points(text));
  return static_cast<size_t>(length_);
}

Sequence::Sequence(Heap& heap, Flavour what, Values values, std::string repr)
    : Object(heap, values.size() * sizeof(Value), depth_of(values)),
      flavour(what),
      items(std::move(values)),
      shown(std::move(repr)) {}

Dict::Dict(Heap& heap, std::vector<Entry> all)
    : Object(heap, all.size() * (sizeof(Entry) + (all.size() > kLinearEntries ? 40 : 0)),
             depth_of(all)),
      entries(std::move(all)) {
  if (entries.size() <= kLinearEntries) return;
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].first.is(Kind::kString))
      by_text_.emplace(entries[i].first.text(), static_cast<uint32_t>(i));
}

const Value* Dict::find(std::string_view key, Heap& heap) const {
  heap.scan(key.size());
  if (entries.size() > kLinearEntries) {
    auto found = by_text_.find(key);
    return found == by_text_.end() ? nullptr : &entries[found->second].second;
  }
  for (const Entry& entry : entries)
    if (entry.first.is(Kind::kString) && entry.first.text() == key) return &entry.second;
  return nullptr;
}

const Value* Dict::find(const Value& key, Heap& heap) const {
  if (key.is(Kind::kString)) return find(key.text(), heap);
  check_hashable(key);
  for (const Entry& entry : entries)
    if (equal(entry.first, key, heap)) return &entry.second;
  return nullptr;
}

Value* Namespace::find(std::string_view name) {
  for (auto& attribute : attributes)
    if (attribute.first == name) return &attribute.second;
  return nullptr;
}

Value make_string(Heap& heap, std::string text, bool markup) {
  return Value(Kind::kString, new Str(heap, std::move(text), markup));
}

Value make_sequence(Heap& heap, Flavour flavour, Values items) {
  return Value(Kind::kSequence, new Sequence(heap, flavour, std::move(items)));
}

Value make_list(Heap& heap, Values items) {
  return make_sequence(heap, Flavour::kList, std::move(items));
}

Value make_tuple(Heap& heap, Values items) {
  return make_sequence(heap, Flavour::kTuple, std::move(items));
}

Value make_dict(Heap& heap, const std::vector<Entry>& entries) {
  std::vector<Entry> unique;
  std::unordered_map<std::string_view, size_t> seen;
  for (const Entry& entry : entries) {
    check_hashable(entry.first);
    size_t at = unique.size();
    if (entry.first.is(Kind::kString)) {
      at = seen.emplace(entry.first.text(), at).first->second;
    } else {
      for (size_t i = 0; i < unique.size() && at == unique.size(); ++i)
        if (equal(unique[i].first, entry.first, heap)) at = i;
    }
    if (at == unique.size())
      unique.push_back(entry);
    else
      unique[at].second = entry.second;
  }
  return Value(Kind::kDict, new Dict(heap, std::move(unique)));
}

Value make_undefined(Heap& heap, std::string why) {
  return Value(Kind::kUndefined, new Str(heap, std::move(why), false));
}

void fail_undefined(const Value& undefined) {
  if (!undefined.object()) fail("a value is undefined");
  fail("{}", undefined.str().text);
}

bool hashable(const Value& value) {
  if (value.is(Kind::kDict)) return false;
  if (!value.is(Kind::kSequence)) return true;
  if (value.sequence().flavour != Flavour::kTuple)
    return value.sequence().flavour >= Flavour::kRange;
  for (const Value& item : value.sequence().items)
    if (!hashable(item)) return false;
  return true;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.str().markup ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kSequence:
      break;
  }
  static constexpr std::string_view kNames[] = {
      "list", "tuple", "range", "dict_keys", "dict_values", "dict_items", "generator"};
  return kNames[static_cast<size_t>(value.sequence().flavour)];
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kSequence:
      return value.sequence().flavour == Flavour::kGenerator || !value.sequence().items.empty();
    default:
      return true;
  }
}

}  // namespace kvick::text::jinja
