"""The command-line agents that run.py runs: how each is started, in its own home folder, and which tool the model calls."""

import base64
import dataclasses
import typing

PROMPT = "Run the command and say what it printed."
COMMAND = "echo kvick-$((6 * 7))"
SEEN = "kvick-42"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

CODEX = """
model = "kvick"
model_provider = "kvick"
sandbox_mode = "danger-full-access"
approval_policy = "never"

[model_providers.kvick]
name = "kvick"
base_url = "{url}/v1"
wire_api = "responses"
"""

CONTINUE = """
name: kvick
version: 0.0.1
schema: v1
models:
  - name: kvick
    provider: {provider}
    model: kvick
    apiBase: {url}{path}
    apiKey: none
    roles: [chat]
    capabilities: [tool_use]
"""


@dataclasses.dataclass
class Agent:
    package: str  # on npm; package.json pins the version
    what: str
    tool: str
    arguments: dict
    shows: str  # text that a later request must contain: the tool's result
    prepare: typing.Callable  # (home, url) -> the command and its environment variables


def codex(home, url):
    (home / "work" / "a.png").write_bytes(base64.b64decode(PNG))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX.format(url=url))
    return ["codex", "exec", "--skip-git-repo-check", PROMPT], {"CODEX_HOME": str(home / ".codex")}


def claude_code(home, url):
    return (["claude", "-p", PROMPT, "--model", "kvick", "--allowedTools", "Bash"],
            {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})


def continue_with(provider, path):
    def prepare(home, url):
        (home / "config.yaml").write_text(CONTINUE.format(url=url, provider=provider, path=path))
        return ["cn", "-p", PROMPT, "--auto", "--config", str(home / "config.yaml")], {"CONTINUE_TELEMETRY_ENABLED": "0"}
    return prepare


def cline(home, url):
    return ["sh", "-c", f"cline auth openai-compatible -k none -m kvick -b {url}/v1 && cline --json '{PROMPT}'"], {}


RUNS = "ran a command and answered"
CODEX_PACKAGE, CLAUDE, CONTINUE_PACKAGE = "@openai/codex", "@anthropic-ai/claude-code", "@continuedev/cli"
BASH = {"command": COMMAND, "description": "Say it"}
AGENTS = {
    "codex": Agent(CODEX_PACKAGE, RUNS, "exec_command", {"cmd": COMMAND}, SEEN, codex),
    "codex-image": Agent(CODEX_PACKAGE, "opened a picture, and the model was told that it cannot see it", "view_image", {"path": "a.png"},
                         "input_image", codex),
    "codex-agents": Agent(CODEX_PACKAGE, "called a function in a namespace", "multi_agent_v1__close_agent", {"target": "none"},
                          "function_call_output", codex),
    "claude-code": Agent(CLAUDE, RUNS, "Bash", BASH, SEEN, claude_code),
    "claude-code-search": Agent(CLAUDE, "searched its tools", "ToolSearch", {"query": "select:WebFetch"}, "tool_reference",
                                claude_code),
    "continue-openai": Agent(CONTINUE_PACKAGE, RUNS, "Bash", BASH, SEEN, continue_with("openai", "/v1")),
    "continue-ollama": Agent(CONTINUE_PACKAGE, RUNS, "Bash", BASH, SEEN, continue_with("ollama", "")),
    "cline": Agent("cline", RUNS, "run_commands", {"commands": [COMMAND]}, SEEN, cline),
}
