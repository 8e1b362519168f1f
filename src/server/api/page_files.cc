#include "server/api/page_files.h"

#include <string>

#include "server/api/static_files.h"

namespace kvick::server {
namespace {

struct PageFile {
  std::string_view path;
  std::string_view (*bytes)();
};

constexpr PageFile kFiles[] = {
    {"/", page_index_html},
    {"/operator", page_operator_html},
    {"/page/api.js", page_api_js},
    {"/page/base.css", page_base_css},
    {"/page/cache_map.js", page_cache_map_js},
    {"/page/cache_view.js", page_cache_view_js},
    {"/page/cache_words.js", page_cache_words_js},
    {"/page/charts.js", page_charts_js},
    {"/page/chat.css", page_chat_css},
    {"/page/chat.js", page_chat_js},
    {"/page/conversations.js", page_conversations_js},
    {"/page/conversations_view.js", page_conversations_view_js},
    {"/page/dom.js", page_dom_js},
    {"/page/main.js", page_main_js},
    {"/page/markdown.js", page_markdown_js},
    {"/page/markdown_blocks.js", page_markdown_blocks_js},
    {"/page/markdown_inline.js", page_markdown_inline_js},
    {"/page/message_view.js", page_message_view_js},
    {"/page/metrics.js", page_metrics_js},
    {"/page/models.js", page_models_js},
    {"/page/operator.css", page_operator_css},
    {"/page/operator.js", page_operator_js},
    {"/page/operator_data.js", page_operator_data_js},
    {"/page/settings.js", page_settings_js},
    {"/page/settings_view.js", page_settings_view_js},
    {"/page/stream.js", page_stream_js},
    {"/page/theme.js", page_theme_js},
};

std::string_view type_of(std::string_view path) {
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

}  // namespace

std::optional<HttpResponse> page_file(std::string_view path) {
  for (const PageFile& file : kFiles) {
    if (file.path != path) continue;
    HttpResponse response = {.type = std::string(type_of(path)), .body = std::string(file.bytes())};
    // The page may load only this server's files, and no other site may frame it. Caches must
    // revalidate, because another version of the program has other files at the same paths.
    response.headers = {
        {"Content-Security-Policy", "default-src 'self'; img-src data:; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-cache"}};
    return response;
  }
  return std::nullopt;
}

}  // namespace kvick::server
