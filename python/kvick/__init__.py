"""kvick: language models on this machine's processor, with the KV cache of your choice.

    import kvick

    model = kvick.Model("model.gguf", kv="paged", kv_type="q8")
    print(model.chat([{"role": "user", "content": "What is gravity?"}]).text)

See docs/guides/python.md. Mistakes of the caller raise `kvick.Error`, a ValueError whose message is one sentence that says what
to do. Failures of the machine or the network raise other exceptions.
"""

from kvick._answer import Answer, AsyncStream, Stream
from kvick._kvick import Error
from kvick._model import Message, Model, Prompt
from kvick._policies import Candidates, add_policy, policies
from kvick._program import plan, program
from kvick._strategies import load_plugin, strategies

# Show users the public name, kvick.Error, rather than the compiled module's.
Error.__module__ = "kvick"

__all__ = ["Answer", "AsyncStream", "Candidates", "Error", "Message", "Model", "Prompt", "Stream", "add_policy", "load_plugin", "plan", "policies",
           "program", "strategies"]
