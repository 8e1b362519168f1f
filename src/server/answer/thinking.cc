#include "server/answer/thinking.h"

#include "server/answer/text_marks.h"

namespace kvick::server {

ThinkingParser::ThinkingParser(const text::AnswerSyntax& syntax, bool inside)
    : open_(syntax.think_open),
      close_(syntax.think_close),
      stage_(inside ? Stage::kInside : Stage::kBefore) {}

// Returns thoughts up to the closing mark, or up to what may be its beginning.
bool ThinkingParser::leave(Found& found, bool all) {
  if (!thought_) held_.erase(0, text_begin(held_));
  const size_t close = held_.find(close_);
  size_t sure = close != held_.npos ? close : held_.size() - (all ? 0 : begun_mark(held_, close_));
  // Holds back white space, which is dropped if the mark follows.
  const size_t shown = close == held_.npos && all ? sure : text_end(held_.substr(0, sure));
  found.reasoning += held_.substr(0, shown);
  thought_ |= shown > 0;
  if (close == held_.npos) {
    held_.erase(0, shown);
    return false;
  }
  held_.erase(0, close + close_.size());
  stage_ = Stage::kBehind;
  return true;
}

// Returns false if it needs more text.
bool ThinkingParser::step(Found& found, bool all) {
  switch (stage_) {
    case Stage::kBefore: {
      const std::string_view text = std::string_view(held_).substr(text_begin(held_));
      if (text.starts_with(open_)) {
        held_.erase(0, held_.size() - text.size() + open_.size());
        stage_ = Stage::kInside;
        return true;
      }
      if (!all && std::string_view(open_).starts_with(text)) return false;
      stage_ = Stage::kContent;
      return true;
    }
    case Stage::kInside:
      return leave(found, all);
    case Stage::kBehind:
      held_.erase(0, text_begin(held_));
      if (held_.empty()) return false;
      stage_ = Stage::kContent;
      return true;
    case Stage::kContent:
      found.content += held_;
      held_.clear();
      return false;
  }
  return false;
}

void ThinkingParser::drain(Found& found, bool all) {
  while (step(found, all)) {
  }
}

ThinkingParser::Found ThinkingParser::push(std::string_view text) {
  held_ += text;
  Found found;
  drain(found, false);
  return found;
}

ThinkingParser::Found ThinkingParser::finish() {
  Found found;
  drain(found, true);
  return found;
}

}  // namespace kvick::server
