#include "text/jinja/parser.h"

#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

using ast::Body;
using ast::ExprPtr;
using Ends = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() {
    Body all = body({}, "");
    if (!unknown_.empty()) throw unknown_.front();
    return all;
  }

 private:
  // Parses statements up to one of the tags in `ends` and stops at its name. opened: the statement
  // that these tags close.
  Body body(Ends ends, std::string_view opened) {
    const int start_line = statement_line_;
    Body statements;
    for (;;) {
      const int line = current().line;
      switch (current().type) {
        case TokenType::kData:
          statements.push_back({ast::Text{take().text}, line});
          break;
        case TokenType::kVariableBegin: {
          take();
          ExprPtr value = tuple(true, false);
          if (current().type != TokenType::kVariableEnd) unexpected("}}");
          take();
          statements.push_back({ast::Print{std::move(value)}, line});
          break;
        }
        case TokenType::kBlockBegin:
          take();
          if (current().type != TokenType::kName) unexpected("a statement's name");
          for (std::string_view end : ends)
            if (is_name(end)) return statements;
          statement_line_ = line;
          statements.push_back(statement());
          statement_line_ = start_line;
          break;
        default:
          if (ends.size() == 0) return statements;
          error(fmt::format("{{% {} %}} is not closed", opened), start_line);
      }
    }
  }

  void end_tag() {
    if (current().type != TokenType::kBlockEnd) unexpected("%}");
    take();
  }

  // Parses the inside of {% name ... %} up to {% end %}, and the ends of both tags.
  Body block(std::string_view end, std::string_view opened) {
    skip_operator(":");
    end_tag();
    Body inside = body({end}, opened);
    take();
    end_tag();
    return inside;
  }

  ast::Statement statement() {
    Nested nested(*this);
    const Token name = take();
    const int line = name.line;
    if (name.text == "if") return {if_statement(), line};
    if (name.text == "for") return {for_statement(), line};
    if (name.text == "set") return set_statement(line);
    if (name.text == "macro") return {macro_statement(), line};
    if (name.text == "call") return {call_block(), line};
    if (name.text == "filter") return {filter_block(), line};
    if (name.text == "with") return {with_statement(), line};
    if (name.text == "generation") return {generation(), line};
    if (name.text == "print") {
      ast::Print print{tuple(true, false)};
      end_tag();
      return {std::move(print), line};
    }
    if (name.text == "break" || name.text == "continue") return loop_control(name);
    error(fmt::format("the statement '{}' is not known here", name.text), line);
  }

  ast::Statement loop_control(const Token& name) {
    if (loops_ == 0) error(fmt::format("'{}' stands outside of a loop", name.text), name.line);
    end_tag();
    if (name.text == "break") return {ast::Break{}, name.line};
    return {ast::Continue{}, name.line};
  }

  ast::If if_statement() {
    ast::If result;
    const size_t unknown = unknown_.size();
    for (;;) {
      ExprPtr condition = tuple(false, false);
      skip_operator(":");
      end_tag();
      Body inside = body({"elif", "else", "endif"}, "if");
      result.branches.emplace_back(std::move(condition), std::move(inside));
      if (skip_name("elif")) continue;
      if (skip_name("else")) {
        result.otherwise = block("endif", "else");
      } else {
        take();
        end_tag();
      }
      unknown_.resize(unknown);
      return result;
    }
  }

  ast::For for_statement() {
    ast::For result;
    result.target = target(false);
    if (!skip_name("in")) unexpected("'in'");
    result.items = tuple(false, false);
    if (skip_name("if")) result.condition = expression();
    if (is_name("recursive")) error("recursive loops are not supported; use a macro");
    skip_operator(":");
    end_tag();
    ++loops_;
    result.body = body({"endfor", "else"}, "for");
    --loops_;
    if (skip_name("else")) {
      result.otherwise = block("endfor", "else");
    } else {
      take();
      end_tag();
    }
    return result;
  }

  ast::Target single_target(bool with_attribute) {
    Nested nested(*this);
    if (skip_operator("(")) {
      ast::Target inner = target(with_attribute);
      expect_operator(")");
      return inner;
    }
    ast::Target result;
    result.name = expect_name();
    for (std::string_view constant : {"true", "false", "none", "True", "False", "None"})
      if (result.name == constant) error(fmt::format("{} cannot be assigned to", constant));
    if (with_attribute && skip_operator(".")) result.attribute = expect_name();
    return result;
  }

  ast::Target target(bool with_attribute) {
    ast::Target first = single_target(with_attribute);
    if (!is_operator(",")) return first;
    ast::Target all;
    all.unpacks = true;
    all.several.push_back(std::move(first));
    while (skip_operator(",")) {
      if (current().type != TokenType::kName && !is_operator("(")) break;
      if (is_name("in")) break;
      all.several.push_back(single_target(with_attribute));
    }
    return all;
  }

  ast::Statement set_statement(int line) {
    ast::Target to = target(true);
    if (skip_operator("=")) {
      ast::Set set{std::move(to), tuple(true, false)};
      end_tag();
      return {std::move(set), line};
    }
    ast::SetBlock set{std::move(to), filters(nullptr, false), {}};
    if (set.target.unpacks) error("a block cannot be assigned to several names", line);
    set.body = block("endset", "set");
    return {std::move(set), line};
  }

  // Parses parameters: "(a, b=1)".
  void signature(ast::Macro& macro) {
    expect_operator("(");
    while (!is_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      std::string name = expect_name();
      ExprPtr fallback;
      if (skip_operator("="))
        fallback = expression();
      else if (!macro.parameters.empty() && macro.parameters.back().second)
        error(fmt::format("the parameter '{}' needs a default, as the one before it", name));
      macro.parameters.emplace_back(std::move(name), std::move(fallback));
    }
    expect_operator(")");
  }

  void macro_body(ast::Macro& macro, std::string_view end, std::string_view opened) {
    const int loops = std::exchange(loops_, 0);
    mentions_.emplace_back();
    macro.body = block(end, opened);
    macro.takes_varargs = mentions_.back().varargs;
    macro.takes_kwargs = mentions_.back().kwargs;
    macro.takes_caller = mentions_.back().caller;
    mentions_.pop_back();
    loops_ = loops;
  }

  ast::MacroStatement macro_statement() {
    auto macro = std::make_unique<ast::Macro>();
    macro->name = expect_name();
    signature(*macro);
    macro_body(*macro, "endmacro", "macro");
    return {std::move(macro)};
  }

  ast::CallBlock call_block() {
    ast::CallBlock result;
    result.caller = std::make_unique<ast::Macro>();
    result.caller->name = "caller";
    if (is_operator("(")) signature(*result.caller);
    result.call = expression();
    if (!std::holds_alternative<ast::Call>(result.call->node))
      error("{% call %} needs a call of a macro");
    macro_body(*result.caller, "endcall", "call");
    return result;
  }

  ast::FilterBlock filter_block() {
    ast::FilterBlock result;
    result.filter = filters(nullptr, true);
    result.body = block("endfilter", "filter");
    return result;
  }

  ast::With with_statement() {
    ast::With result;
    while (current().type != TokenType::kBlockEnd) {
      if (!result.assignments.empty()) expect_operator(",");
      ast::Target to = target(false);
      expect_operator("=");
      result.assignments.emplace_back(std::move(to), expression());
    }
    result.body = block("endwith", "with");
    return result;
  }

  // {% generation %} marks the assistant's text for training; here it only prints its body.
  ast::With generation() {
    const int loops = std::exchange(loops_, 0);
    ast::With result;
    result.body = block("endgeneration", "generation");
    loops_ = loops;
    return result;
  }

  int statement_line_ = 1;  // where the innermost open statement began
  int loops_ = 0;           // loops around the current place, within its macro
};

}  // namespace

ast::Body parse_template(std::string_view source) { return Parser(lex(source)).run(); }

}  // namespace kvick::text::jinja
