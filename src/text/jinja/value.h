#pragma once
// The values of a template: Python's, as far as templates can tell the difference. Values other
// than namespaces are immutable, so a list never contains itself. The evaluator keeps the few
// objects that could form a cycle and clears them when a rendering ends.
// Larger than a header should be because each Python type is a small class and Value holds them
// all.

#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvick::text::jinja {

// An error inside the interpreter. It is the one exception to the rule that bad input is a Result,
// because an evaluator recurses through a hundred small functions that can all fail. It never
// leaves ChatTemplate, which turns it into an Error.
struct Failure {
  std::string message;
  int line = 0;  // 0: the evaluator's present line
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{fmt::format(format, std::forward<Args>(args)...)};
}

// Containers nested deeper than this are refused, so that walking or freeing a value cannot
// overflow the stack.
inline constexpr int kMaxValueDepth = 200;

// Counts the resources of one rendering: bytes in use, and work done. Throws a Failure when a limit
// is exceeded.
class Heap {
 public:
  Heap(size_t max_bytes, uint64_t max_work) : max_bytes_(max_bytes), max_work_(max_work) {}

  void work(uint64_t units) {
    work_ += units;
    if (work_ > max_work_) fail("it does more than {} steps of work; simplify it", max_work_);
  }
  // Counts an operation over `bytes` bytes. One step takes about the time of copying 32 bytes.
  void scan(size_t bytes) { work(1 + bytes / 32); }
  // Called before something of this size is built.
  void expect(size_t bytes) const {
    if (bytes > max_bytes_ - live_) fail("it holds more than {} bytes; simplify it", max_bytes_);
  }
  void take(size_t bytes) {
    expect(bytes);
    scan(bytes);
    live_ += bytes;
  }
  void give(size_t bytes) { live_ -= bytes; }

 private:
  size_t max_bytes_, live_ = 0;
  uint64_t max_work_, work_ = 0;
};

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
};

// Base of what a Value may point to. The reference count is not atomic: an object belongs to one
// rendering on one thread.
class Object {
 public:
  Object(Heap& heap, size_t bytes, int depth)
      : heap_(heap), bytes_(bytes + kOverhead), depth_(depth) {
    if (depth > kMaxValueDepth) fail("values are nested more than {} deep", kMaxValueDepth);
    heap_.take(bytes_);
  }
  virtual ~Object() { heap_.give(bytes_); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  static constexpr size_t kOverhead = 96;  // bytes of an object besides its contents
  int depth() const { return depth_; }
  bool shared() const { return references_ > 1; }

 private:
  template <typename T>
  friend class Ref;
  Heap& heap_;
  size_t bytes_;
  int depth_;
  int references_ = 0;
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_) ++object_->Object::references_;
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    // clang's analyzer does not follow the reference counts.
    if (object_ && --object_->Object::references_ == 0)  // NOLINT(clang-analyzer-cplusplus*)
      delete object_;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

struct Str;
struct Sequence;
struct Dict;

class Value {
 public:
  Value() : kind_(Kind::kUndefined) {}
  Value(Kind kind, Object* object) : kind_(kind), object_(object) {}
  static Value none() { return Value(Kind::kNone, nullptr); }
  static Value boolean(bool b) { return Value(Kind::kBool, b, 0); }
  static Value integer(int64_t i) { return Value(Kind::kInt, i, 0); }
  static Value real(double d) { return Value(Kind::kFloat, 0, d); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ >= Kind::kBool && kind_ <= Kind::kFloat; }
  bool is_integral() const { return kind_ == Kind::kBool || kind_ == Kind::kInt; }

  bool as_bool() const { return integer_ != 0; }
  int64_t as_int() const { return integer_; }  // of a bool or int
  double as_double() const { return kind_ == Kind::kFloat ? real_ : static_cast<double>(integer_); }
  // The caller must have checked the kind.
  const Str& str() const;
  std::string_view text() const;
  const Sequence& sequence() const;
  const Dict& dict() const;
  template <typename T>
  T* as() const {
    return static_cast<T*>(object_.get());
  }
  Object* object() const { return object_.get(); }
  int depth() const { return object_ ? object_->depth() : 0; }

 private:
  Value(Kind kind, int64_t i, double d) : kind_(kind), integer_(i) {
    if (kind == Kind::kFloat) real_ = d;
  }
  Kind kind_;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  Ref<Object> object_;
};

using Values = std::vector<Value>;

// A string of UTF-8, counted and indexed by code points as in Python; a byte that is not UTF-8
// counts as one.
struct Str : Object {
  Str(Heap& heap, std::string s, bool is_markup);
  size_t length() const;  // code points
  bool ascii() const { return length() == text.size(); }
  const std::string text;
  // From |safe or |escape: text that is added to it is escaped first, as by markupsafe.
  const bool markup;

 private:
  mutable int64_t length_ = -1;
};

// Any kind of sequence. A generator (from a lazy filter) has no length, and can be read only once.
enum class Flavour : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

struct Sequence : Object {
  Sequence(Heap& heap, Flavour flavour, Values items, std::string shown = "");
  const Flavour flavour;
  const Values items;
  const std::string shown;  // repr() of a range
  mutable size_t next = 0;  // of a generator: the first item not yet read
  // Attributes that stand for the items: those of the tuples of |groupby.
  std::span<const std::string_view> names;
};

using Entry = std::pair<Value, Value>;

// Entries are in order of insertion.
struct Dict : Object {
  Dict(Heap& heap, std::vector<Entry> entries);
  // Returns nullptr if absent. Fails on a key that Python cannot hash.
  const Value* find(const Value& key, Heap& heap) const;
  const Value* find(std::string_view key, Heap& heap) const;
  const std::vector<Entry> entries;

 private:
  std::unordered_map<std::string_view, uint32_t> by_text_;  // filled only for large dictionaries
};

struct Namespace : Object {
  Namespace(Heap& heap, size_t size) : Object(heap, size * 64, 1) {}
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
};

inline const Str& Value::str() const { return *as<Str>(); }
inline std::string_view Value::text() const { return str().text; }
inline const Sequence& Value::sequence() const { return *as<Sequence>(); }
inline const Dict& Value::dict() const { return *as<Dict>(); }

Value make_string(Heap& heap, std::string text, bool markup = false);
Value make_sequence(Heap& heap, Flavour flavour, Values items);
Value make_list(Heap& heap, Values items);
Value make_tuple(Heap& heap, Values items);
// A later entry with an equal key replaces the earlier one, at the earlier one's position.
Value make_dict(Heap& heap, const std::vector<Entry>& entries);
// Makes an undefined value that reports `why` when it is used.
Value make_undefined(Heap& heap, std::string why);
[[noreturn]] void fail_undefined(const Value& undefined);

// Python's name of a type: "str", "dict", "int", ...
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
bool hashable(const Value& value);  // may be a dictionary's key

}  // namespace kvick::text::jinja
