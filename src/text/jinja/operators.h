#pragma once
// Python's operators on values.

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace kvick::text::jinja {

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

Value binary(BinaryOp op, const Value& a, const Value& b, Heap& heap);
Value negate(const Value& value);
bool compare(CompareOp op, const Value& a, const Value& b, Heap& heap);
bool equal(const Value& a, const Value& b, Heap& heap);
bool less(const Value& a, const Value& b, Heap& heap);  // a < b; fails where Python has no order
bool contains(const Value& container, const Value& item, Heap& heap);

// Returns container[index], or undefined if there is none. A string index finds only dictionary
// entries.
Value subscript(const Value& container, const Value& index, Heap& heap);
// Returns container[start:stop:step]; a part that is left out is undefined or none.
Value slice(const Value& container, const Value& start, const Value& stop, const Value& step,
            Heap& heap);
// Returns len(), or nullopt if Python has none for this type.
std::optional<int64_t> length(const Value& value);
// Returns what iterating yields: items, keys or code points. Reads a generator to its end. Fails
// where Python cannot iterate.
Values items_of(const Value& value, Heap& heap);
int64_t to_index(const Value& value, std::string_view what);  // an int or bool, else a Failure

}  // namespace kvick::text::jinja
