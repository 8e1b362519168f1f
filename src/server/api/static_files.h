#pragma once
// Files of the tree that are part of the program. src/server/CMakeLists.txt turns each into a .cc.

#include <string_view>

namespace kvick::server {

std::string_view openapi_json();
// The files page/NAME.
std::string_view page_index_html();
std::string_view page_operator_html();
std::string_view page_api_js();
std::string_view page_base_css();
std::string_view page_cache_map_js();
std::string_view page_cache_view_js();
std::string_view page_cache_words_js();
std::string_view page_charts_js();
std::string_view page_chat_css();
std::string_view page_chat_js();
std::string_view page_conversations_js();
std::string_view page_conversations_view_js();
std::string_view page_dom_js();
std::string_view page_main_js();
std::string_view page_markdown_js();
std::string_view page_markdown_blocks_js();
std::string_view page_markdown_inline_js();
std::string_view page_message_view_js();
std::string_view page_metrics_js();
std::string_view page_models_js();
std::string_view page_operator_css();
std::string_view page_operator_js();
std::string_view page_operator_data_js();
std::string_view page_settings_js();
std::string_view page_settings_view_js();
std::string_view page_stream_js();
std::string_view page_theme_js();

}  // namespace kvick::server
