#include <algorithm>

#include "text/jinja/parser.h"
#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

using ast::ExprPtr;

// Both limit the use of the stack: kMaxNesting by the parser, which recurses into brackets and
// blocks; kMaxDepth by the evaluator, which also recurses into the left of a + b + c ...
constexpr int kMaxNesting = 120;
constexpr int kMaxDepth = 400;

int depth_of(const ExprPtr& expr) { return expr ? expr->depth : 0; }

int depth_of(const ast::Exprs& exprs) {
  int depth = 0;
  for (const ExprPtr& expr : exprs) depth = std::max(depth, depth_of(expr));
  return depth;
}

int depth_of(const ast::Arguments& arguments) {
  int depth = std::max(
      {depth_of(arguments.positional), depth_of(arguments.star), depth_of(arguments.double_star)});
  for (const auto& named : arguments.named) depth = std::max(depth, depth_of(named.second));
  return depth;
}

int depth_of(const ExprPtr& a, const ExprPtr& b, const ExprPtr& c = nullptr,
             const ExprPtr& d = nullptr) {
  return std::max({depth_of(a), depth_of(b), depth_of(c), depth_of(d)});
}

// Returns the depth of a node's deepest child.
struct ChildDepth {
  int operator()(const ast::List& n) const { return depth_of(n.items); }
  int operator()(const ast::DictLiteral& n) const {
    int depth = 0;
    for (const auto& entry : n.entries)
      depth = std::max(depth, depth_of(entry.first, entry.second));
    return depth;
  }
  int operator()(const ast::Attribute& n) const { return depth_of(n.object); }
  int operator()(const ast::Subscript& n) const { return depth_of(n.object, n.index); }
  int operator()(const ast::Slice& n) const { return depth_of(n.object, n.start, n.stop, n.step); }
  int operator()(const ast::Call& n) const {
    return std::max(depth_of(n.callee), depth_of(n.arguments));
  }
  int operator()(const ast::Filter& n) const {
    return std::max(depth_of(n.value), depth_of(n.arguments));
  }
  int operator()(const ast::Test& n) const {
    return std::max(depth_of(n.value), depth_of(n.arguments));
  }
  int operator()(const ast::Negate& n) const { return depth_of(n.value); }
  int operator()(const ast::Not& n) const { return depth_of(n.value); }
  int operator()(const ast::Binary& n) const { return depth_of(n.left, n.right); }
  int operator()(const ast::Concat& n) const { return depth_of(n.parts); }
  int operator()(const ast::Compare& n) const {
    int depth = depth_of(n.first);
    for (const auto& operand : n.rest) depth = std::max(depth, depth_of(operand.second));
    return depth;
  }
  int operator()(const ast::Logical& n) const { return depth_of(n.left, n.right); }
  int operator()(const ast::Conditional& n) const {
    return depth_of(n.condition, n.then, n.otherwise);
  }
  template <typename Leaf>
  int operator()(const Leaf&) const {
    return 0;
  }
};

}  // namespace

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (parser_.nesting_ >= kMaxNesting)
    parser_.error(fmt::format("it is nested more than {} deep", kMaxNesting));
  ++parser_.nesting_;
}

ExprPtr ExpressionParser::make(int line, ast::Expr::Node node) const {
  const int depth = 1 + std::visit(ChildDepth(), node);
  if (depth > kMaxDepth)
    error(fmt::format("an expression is more than {} operations deep", kMaxDepth), line);
  return std::make_unique<ast::Expr>(ast::Expr{std::move(node), line, depth});
}

Token ExpressionParser::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::is_operator(std::string_view text) const {
  return current().type == TokenType::kOperator && current().text == text;
}

bool ExpressionParser::is_name(std::string_view name) const {
  return current().type == TokenType::kName && current().text == name;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(fmt::format("'{}'", text));
}

std::string ExpressionParser::expect_name() {
  if (current().type != TokenType::kName) unexpected("a name");
  return take().text;
}

void ExpressionParser::error(std::string message, int line) const {
  throw Failure{std::move(message), line ? line : current().line};
}

void ExpressionParser::unexpected(std::string_view wanted) const {
  std::string found;
  switch (current().type) {
    case TokenType::kVariableEnd:
      found = "}}";
      break;
    case TokenType::kBlockEnd:
      found = "%}";
      break;
    case TokenType::kEnd:
      found = "the template's end";
      break;
    case TokenType::kString:
      found = repr_string(current().text);
      break;
    default:
      found = fmt::format("'{}'", current().text);
  }
  error(fmt::format("{} is expected, not {}", wanted, found));
}

ExprPtr ExpressionParser::expression(bool with_condition) {
  Nested nested(*this);
  return with_condition ? condition() : logical_or();
}

ExprPtr ExpressionParser::condition() {
  const int line = current().line;
  const size_t unknown = unknown_.size();
  ExprPtr value = logical_or();
  while (skip_name("if")) {
    ExprPtr test = logical_or();
    ExprPtr otherwise;
    if (skip_name("else")) {
      Nested nested(*this);
      otherwise = condition();
    }
    unknown_.resize(unknown);
    value = make(line, ast::Conditional{std::move(test), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExprPtr ExpressionParser::logical_or() {
  const int line = current().line;
  ExprPtr left = logical_and();
  while (skip_name("or")) left = make(line, ast::Logical{false, std::move(left), logical_and()});
  return left;
}

ExprPtr ExpressionParser::logical_and() {
  const int line = current().line;
  ExprPtr left = logical_not();
  while (skip_name("and")) left = make(line, ast::Logical{true, std::move(left), logical_not()});
  return left;
}

ExprPtr ExpressionParser::logical_not() {
  const int line = current().line;
  if (!skip_name("not")) return comparison();
  Nested nested(*this);
  return make(line, ast::Not{logical_not()});
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  const int line = current().line;
  ExprPtr first = sum();
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
  for (bool more = true; more;) {
    more = false;
    for (auto [symbol, op] : kOperators) {
      if (!skip_operator(symbol)) continue;
      rest.emplace_back(op, sum());
      more = true;
      break;
    }
    if (more) continue;
    const bool negated = is_name("not") && ahead().type == TokenType::kName && ahead().text == "in";
    if (!negated && !is_name("in")) break;
    if (negated) take();
    take();
    rest.emplace_back(negated ? CompareOp::kNotIn : CompareOp::kIn, sum());
    more = true;
  }
  return rest.empty() ? std::move(first)
                      : make(line, ast::Compare{std::move(first), std::move(rest)});
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    Token op = take();
    left = make(op.line, ast::Binary{op.text == "+" ? BinaryOp::kAdd : BinaryOp::kSub,
                                     std::move(left), concatenation()});
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  const int line = current().line;
  ast::Exprs parts;
  parts.push_back(product());
  while (skip_operator("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : make(line, ast::Concat{std::move(parts)});
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    Token token = take();
    BinaryOp op = token.text == "*"    ? BinaryOp::kMul
                  : token.text == "/"  ? BinaryOp::kDiv
                  : token.text == "//" ? BinaryOp::kFloorDiv
                                       : BinaryOp::kMod;
    left = make(token.line, ast::Binary{op, std::move(left), power()});
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  const int line = current().line;
  ExprPtr left = unary();
  while (skip_operator("**"))
    left = make(line, ast::Binary{BinaryOp::kPow, std::move(left), unary()});
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  const int line = current().line;
  ExprPtr value;
  if (is_operator("-") || is_operator("+")) {
    Nested nested(*this);
    const bool minus = take().text == "-";
    value = make(line, ast::Negate{unary(false), minus});
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filtered(std::move(value)) : std::move(value);
}

}  // namespace kvick::text::jinja
