// The innermost expressions: literals, names, calls, subscripts, filters and tests.
#include <charconv>

#include "text/jinja/builtins.h"
#include "text/jinja/parser.h"

namespace kvick::text::jinja {
namespace {

using ast::ExprPtr;

bool ends_tuple(const Token& token) {
  return token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd ||
         token.type == TokenType::kEnd || (token.type == TokenType::kOperator && token.text == ")");
}

// What runs in place of a filter or test that is not known; the name is its last argument.
Value unknown_filter(Evaluator&, const CallArguments& arguments) {
  fail("the filter '{}' is not known", arguments.positional.back().text());
}
bool unknown_test(Evaluator&, const CallArguments& arguments) {
  fail("the test '{}' is not known", arguments.positional.back().text());
}

ast::Arguments only_name(int line, const std::string& name) {
  ast::Arguments given;
  given.positional.push_back(std::make_unique<ast::Expr>(ast::Expr{ast::String{name}, line, 1}));
  return given;
}

}  // namespace

ExprPtr ExpressionParser::tuple(bool with_condition, bool parenthesised) {
  const int line = current().line;
  ast::Exprs items;
  bool is_tuple = false;
  while (!ends_tuple(current())) {
    items.push_back(expression(with_condition));
    if (!is_operator(",")) break;
    is_tuple = true;
    take();
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !parenthesised) unexpected("an expression");
  return make(line, ast::List{std::move(items), true});
}

ExprPtr ExpressionParser::primary() {
  const Token token = current();
  switch (token.type) {
    case TokenType::kName:
      take();
      return name(token);
    case TokenType::kInteger:
    case TokenType::kFloat:
      take();
      return number(token);
    case TokenType::kString: {
      std::string text;
      while (current().type == TokenType::kString) text += take().text;
      return make(token.line, ast::String{std::move(text)});
    }
    default:
      break;
  }
  if (is_operator("[")) return list();
  if (is_operator("{")) return dict();
  if (!skip_operator("(")) unexpected("an expression");
  ExprPtr inner = tuple(true, true);
  expect_operator(")");
  return inner;
}

ExprPtr ExpressionParser::name(const Token& token) {
  const std::string& text = token.text;
  if (text == "true" || text == "True") return make(token.line, ast::Bool{true});
  if (text == "false" || text == "False") return make(token.line, ast::Bool{false});
  if (text == "none" || text == "None") return make(token.line, ast::None{});
  for (Mentions& macro : mentions_) {
    macro.varargs |= text == "varargs";
    macro.kwargs |= text == "kwargs";
    macro.caller |= text == "caller";
  }
  return make(token.line, ast::Name{text});
}

ExprPtr ExpressionParser::number(const Token& token) {
  const char *begin = token.text.data(), *end = begin + token.text.size();
  if (token.type == TokenType::kFloat) {
    double value = 0;
    // Python, too, turns a number that is too large for a double into inf, and one that is too
    // small into 0.
    if (std::from_chars(begin, end, value).ec == std::errc::result_out_of_range)
      value = std::strtod(token.text.c_str(), nullptr);
    return make(token.line, ast::Float{value});
  }
  int base = 10;
  if (token.text.size() > 1 && token.text[0] == '0') {
    const char prefix = token.text[1];
    base = prefix == 'x' ? 16 : (prefix == 'o' ? 8 : (prefix == 'b' ? 2 : 10));
    if (base == 10 && token.text.find_first_not_of('0') != std::string::npos)
      error(fmt::format("the number {} begins with 0", token.text), token.line);
    if (base != 10) begin += 2;
  }
  int64_t value = 0;
  auto [stopped, problem] = std::from_chars(begin, end, value, base);
  if (problem == std::errc::result_out_of_range)
    error(fmt::format("the number {} does not fit into 64 bits", token.text), token.line);
  if (problem != std::errc() || stopped != end)
    error(fmt::format("{} is not a number", token.text), token.line);
  return make(token.line, ast::Integer{value});
}

ExprPtr ExpressionParser::list() {
  const int line = take().line;
  ast::Exprs items;
  while (!is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    items.push_back(expression());
  }
  expect_operator("]");
  return make(line, ast::List{std::move(items), false});
}

ExprPtr ExpressionParser::dict() {
  const int line = take().line;
  ast::DictLiteral dict;
  while (!is_operator("}")) {
    if (!dict.entries.empty()) expect_operator(",");
    if (is_operator("}")) break;
    ExprPtr key = expression();
    expect_operator(":");
    dict.entries.emplace_back(std::move(key), expression());
  }
  expect_operator("}");
  return make(line, std::move(dict));
}

ExprPtr ExpressionParser::postfix(ExprPtr value) {
  for (;;) {
    if (is_operator("."))
      value = attribute(std::move(value));
    else if (is_operator("["))
      value = subscript(std::move(value));
    else if (is_operator("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExprPtr ExpressionParser::filtered(ExprPtr value) {
  for (;;) {
    if (is_operator("|"))
      value = filters(std::move(value), false);
    else if (is_name("is"))
      value = test(std::move(value));
    else if (is_operator("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExprPtr ExpressionParser::attribute(ExprPtr object) {
  const int line = take().line;
  const Token name = current();
  if (name.type == TokenType::kName) {
    take();
    return make(line, ast::Attribute{std::move(object), name.text});
  }
  if (name.type != TokenType::kInteger) unexpected("a name or a number after '.'");
  take();
  return make(line, ast::Subscript{std::move(object), number(name)});
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const int line = take().line;
  ExprPtr start, stop, step;
  if (!is_operator(":")) {
    if (is_operator("]")) unexpected("an expression");
    start = expression();
    if (skip_operator("]")) return make(line, ast::Subscript{std::move(object), std::move(start)});
    if (is_operator(",")) {
      ast::Exprs items;
      items.push_back(std::move(start));
      while (skip_operator(","))
        if (!is_operator("]")) items.push_back(expression());
      expect_operator("]");
      ExprPtr index = make(line, ast::List{std::move(items), true});
      return make(line, ast::Subscript{std::move(object), std::move(index)});
    }
  }
  expect_operator(":");
  if (!is_operator(":") && !is_operator("]")) stop = expression();
  if (skip_operator(":") && !is_operator("]")) step = expression();
  expect_operator("]");
  return make(line,
              ast::Slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ast::Arguments ExpressionParser::arguments() {
  ast::Arguments all;
  expect_operator("(");
  for (bool first = true; !is_operator(")"); first = false) {
    if (!first) expect_operator(",");
    if (is_operator(")")) break;
    const bool dynamic = all.star || all.double_star;
    if (skip_operator("*")) {
      if (dynamic) error("a second * argument, or one after **");
      all.star = expression();
    } else if (skip_operator("**")) {
      if (all.double_star) error("a second ** argument");
      all.double_star = expression();
    } else if (current().type == TokenType::kName && ahead().type == TokenType::kOperator &&
               ahead().text == "=") {
      if (all.double_star) error("a keyword argument after **");
      std::string name = take().text;
      take();
      all.named.emplace_back(std::move(name), expression());
    } else {
      if (dynamic || !all.named.empty()) error("a positional argument after keyword arguments");
      all.positional.push_back(expression());
    }
  }
  expect_operator(")");
  return all;
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  const int line = current().line;
  return make(line, ast::Call{std::move(callee), arguments()});
}

ExprPtr ExpressionParser::filters(ExprPtr value, bool begun) {
  while (begun || skip_operator("|")) {
    begun = false;
    const int line = current().line;
    const std::string name = expect_name();
    Function function = find_filter(name);
    ast::Arguments given;
    if (is_operator("(")) given = arguments();
    if (!function) {
      unknown_.push_back({fmt::format("the filter '{}' is not known", name), line});
      function = unknown_filter;
      given = only_name(line, name);
    }
    value = make(line, ast::Filter{std::move(value), function, std::move(given)});
  }
  return value;
}

ast::Arguments ExpressionParser::test_arguments() {
  if (is_operator("(")) return arguments();
  ast::Arguments given;
  const Token& next = current();
  const bool word = next.type == TokenType::kName;
  const bool begins = word || next.type == TokenType::kString || next.type == TokenType::kInteger ||
                      next.type == TokenType::kFloat || is_operator("[") || is_operator("{");
  if (!begins || (word && (next.text == "else" || next.text == "or" || next.text == "and")))
    return given;
  if (word && next.text == "is") error("two tests with 'is' cannot be chained");
  given.positional.push_back(postfix(primary()));
  return given;
}

ExprPtr ExpressionParser::test(ExprPtr value) {
  const int line = take().line;
  const bool negated = skip_name("not");
  const std::string name = expect_name();
  TestFunction function = find_test(name);
  ast::Arguments given = test_arguments();
  if (!function) {
    unknown_.push_back({fmt::format("the test '{}' is not known", name), line});
    function = unknown_test;
    given = only_name(line, name);
  }
  ExprPtr result = make(line, ast::Test{std::move(value), function, std::move(given)});
  return negated ? make(line, ast::Not{std::move(result)}) : std::move(result);
}

}  // namespace kvick::text::jinja
