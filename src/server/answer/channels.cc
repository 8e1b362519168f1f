#include "server/answer/channels.h"

#include <algorithm>
#include <array>

#include "server/answer/text_marks.h"

namespace kvick::server {
namespace {

constexpr std::string_view kMessage = "<|message|>", kChannel = "<|channel|>", kStart = "<|start|>";
// The marks that end a message. The last two also end the answer, and then may be missing from its
// text.
constexpr std::array<std::string_view, 4> kEnds = {"<|end|>", kStart, "<|call|>", "<|return|>"};
constexpr std::string_view kFunctions = "functions.";

// Returns the word after a key, such as "analysis" after <|channel|>.
std::string_view word_behind(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == header.npos) return "";
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, std::min(rest.find_first_of(" \t\r\n<"), rest.size()));
}

}  // namespace

// Returns true if the header was read and its body follows.
bool ChannelParser::read_header(bool all) {
  const size_t end = held_.find(kMessage);
  if (end == held_.npos) {
    // A first message without a header is plain text.
    const size_t begin = text_begin(held_);
    const bool header = begin == held_.size() || held_[begin] == '<' ||
                        std::string_view(held_).substr(begin).starts_with("to=");
    if (!first_ || (header && !all)) return false;
    first_ = false;
    part_ = Part::kContent;
    return !held_.empty();
  }
  const std::string header = held_.substr(0, end);
  held_.erase(0, end + kMessage.size());
  first_ = false;
  const std::string_view to = word_behind(header, "to=");
  if (to.starts_with(kFunctions)) {
    name_ = to.substr(kFunctions.size());
    part_ = Part::kCall;
  } else {
    part_ = word_behind(header, kChannel) == "analysis" ? Part::kReasoning : Part::kContent;
  }
  return true;
}

void ChannelParser::end_call(Found& found, bool whole) {
  std::string name = std::exchange(name_, {}), arguments = std::exchange(arguments_, {});
  const bool offered = tools_ != nullptr && std::find(tools_->names.begin(), tools_->names.end(),
                                                      name) != tools_->names.end();
  if (offered && whole && text_begin(arguments) == arguments.size()) arguments = "{}";
  const auto parsed = parse_json(arguments);
  const bool object = parsed.ok() && parsed->is_object();
  if (!offered || (whole && !object)) {
    found.content += arguments;
    return;
  }
  found.cut |= !object;
  if (!tools_->parallel && calls_ > 0) return;
  ++calls_;
  found.calls.push_back(
      {.name = std::move(name), .arguments = object ? to_text(*parsed) : std::move(arguments)});
}

// Returns true if the body has ended and a header follows.
bool ChannelParser::read_body(Found& found, bool all) {
  size_t end = held_.npos, mark = 0, unsure = 0;
  for (const std::string_view one : kEnds) {
    const size_t at = held_.find(one);
    if (at < end) end = at, mark = one.size();
    unsure = std::max(unsure, begun_mark(held_, one));
  }
  const bool ended = end != held_.npos;
  const size_t sure = ended ? end : held_.size() - (all ? 0 : unsure);
  std::string& out = part_ == Part::kCall        ? arguments_
                     : part_ == Part::kReasoning ? found.reasoning
                                                 : found.content;
  out += held_.substr(0, sure);
  held_.erase(0, ended ? end + mark : sure);
  if (!ended) return false;
  if (part_ == Part::kCall) end_call(found, true);
  part_ = Part::kHeader;
  return true;
}

void ChannelParser::drain(Found& found, bool all) {
  while (part_ == Part::kHeader ? read_header(all) : read_body(found, all)) {
  }
}

ChannelParser::Found ChannelParser::push(std::string_view text) {
  held_ += text;
  Found found;
  drain(found, false);
  return found;
}

ChannelParser::Found ChannelParser::finish(bool whole) {
  Found found;
  drain(found, true);
  if (part_ == Part::kCall) end_call(found, whole);
  return found;
}

}  // namespace kvick::server
