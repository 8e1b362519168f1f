"""kvick: language models on this machine's processor, with the KV cache of your choice.

    import kvick

    model = kvick.Model("model.gguf", kv="paged", kv_type="q8")
    print(model.chat([{"role": "user", "content": "What is gravity?"}]).text)

docs/guides/python.md has the rest. What a user can do wrong raises `kvick.Error`, with one sentence that says what to do.
"""

from kvick._answer import Answer, AsyncStream, Stream
from kvick._kvick import Error
from kvick._model import Message, Model, Prompt
from kvick._policies import Candidates, add_policy, policies
from kvick._program import plan, program
from kvick._strategies import load_plugin, strategies

# Where it is documented and caught, not where it is compiled.
Error.__module__ = "kvick"

__all__ = ["Answer", "AsyncStream", "Candidates", "Error", "Message", "Model", "Prompt", "Stream", "add_policy", "load_plugin", "plan", "policies",
           "program", "strategies"]
