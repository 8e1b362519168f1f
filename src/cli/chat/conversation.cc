#include "cli/chat/conversation.h"

#include <fstream>
#include <iterator>

#include "base/json_depth.h"
#include "base/text_file.h"

namespace kvick::cli {
namespace {

using nlohmann::ordered_json;

constexpr uintmax_t kMostBytes = 64 << 20;

bool is_message(const ordered_json& message) {
  if (!message.is_object()) return false;
  const auto role = message.find("role"), content = message.find("content");
  if (role == message.end() || content == message.end() || !content->is_string()) return false;
  return *role == "system" || *role == "user" || *role == "assistant";
}

}  // namespace

base::Status<> write_conversation(const std::filesystem::path& path, const std::string& model,
                                  const ordered_json& messages) {
  const ordered_json all = {{"model", model}, {"messages", messages}};
  return base::write_file(path,
                          all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

base::Result<ordered_json> read_conversation(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return base::fail("cannot read {}: {}", path.string(), error.message());
  if (bytes > kMostBytes)
    return base::fail("{} has {} bytes, and a conversation at most {}", path.string(), bytes,
                      kMostBytes);
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  constexpr size_t kMostDepth = 64;
  const ordered_json all = base::is_nested_deeper(text, kMostDepth)
                               ? ordered_json()
                               : ordered_json::parse(text, nullptr, false);
  const auto messages = all.is_object() ? all.find("messages") : all.end();
  if (!all.is_object() || messages == all.end() || !messages->is_array())
    return base::fail("{} is not a conversation saved by /save: it has no list of messages",
                      path.string());
  for (size_t i = 0; i < messages->size(); ++i)
    if (!is_message((*messages)[i]))
      return base::fail(
          "{}: message {} needs a role (system, user or assistant) and a text as its content",
          path.string(), i);
  return *messages;
}

}  // namespace kvick::cli
