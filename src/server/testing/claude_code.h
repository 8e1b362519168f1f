#pragma once
// A request in the form of Claude Code: the fields of its versions 2.0 and 2.1, as users have
// published them. The texts and tools are our own.

namespace kvick::server {

inline constexpr const char* kClaudeCode = R"({
  "model": "tiny", "max_tokens": 32000, "stream": true, "temperature": 1,
  "system": [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;"},
    {"type": "text", "text": "You write programs.", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
  "messages": [
    {"role": "user", "content": [
      {"type": "text", "text": "<system-reminder>It is Friday.</system-reminder>"},
      {"type": "text", "text": "What is here?", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "I list them.", "signature": ""},
      {"type": "text", "text": "I look."},
      {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "ls"}},
      {"type": "tool_use", "id": "toolu_02", "name": "Read", "input": {"file_path": "/a"}}]},
    {"role": "user", "content": [
      {"tool_use_id": "toolu_01", "type": "tool_result", "content": "a\nb", "is_error": false},
      {"tool_use_id": "toolu_02", "type": "tool_result", "is_error": true,
       "content": [{"type": "text", "text": "no such file"}], "cache_control": {"type": "ephemeral"}},
      {"type": "text", "text": "Go on."}]}],
  "tools": [
    {"name": "Bash", "description": "Runs a command", "input_schema": {
      "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
      "properties": {"command": {"type": "string"}}, "required": ["command"],
      "additionalProperties": false}},
    {"name": "Read", "description": "Reads a file", "eager_input_streaming": true, "input_schema": {
      "type": "object", "properties": {"file_path": {"type": "string"}},
      "required": ["file_path"]}, "cache_control": {"type": "ephemeral"}}],
  "metadata": {"user_id": "user_0_account__session_0"},
  "thinking": {"type": "enabled", "budget_tokens": 31999},
  "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
  "output_config": {"effort": "xhigh"}
})";

}  // namespace kvick::server
