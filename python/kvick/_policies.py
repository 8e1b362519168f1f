"""The table of policies, which choose the cached rows that attention reads, and policies written in Python."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from kvick import _kvick
from kvick._kvick import Error

if TYPE_CHECKING:
    import numpy

OptionValue = Union[bool, int, float, str]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows of one layer and KV head among which a policy chooses for one step. All arrays are float32."""

    layer: int  # index among the layers whose rows the policy chooses
    head: int  # index of the KV head
    first: int  # position in the sequence of the first of these rows
    take: int  # how many of these rows will be read
    queries: "numpy.ndarray"  # [queries][head_dim]: of all tokens in the step and all query heads that share this KV head
    keys: "numpy.ndarray"  # [rows][head_dim]; position encoding is applied, as it is to the queries
    values: "Optional[numpy.ndarray]"  # [rows][value_dim]; None unless the policy was added with values=True

    def attention(self) -> "numpy.ndarray":
        """The softmax attention weight of each row among these rows, summed over the queries: [rows]. Logits are scaled by
        1 / sqrt(head_dim)."""
        import numpy
        logits = self.queries @ self.keys.T / numpy.sqrt(self.keys.shape[1])
        weights = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        return (weights / weights.sum(axis=1, keepdims=True)).sum(axis=0)


def policies() -> list[dict[str, Any]]:
    """The policies that `kv_select` accepts, one dict each: `name`, `summary`, `options`, `forgets` (it drops rows for good) and
    `needs_file` (it needs a file trained for the model)."""
    return _kvick.policies()


def add_policy(name: str, score: "Callable[..., numpy.ndarray]", *, summary: str = "a policy in Python", values: bool = False) -> None:
    """Adds a policy that chooses which rows are read; use it as `kv_select="NAME:budget=0.25"`. Needs numpy.

    score(rows, ...): gets the `Candidates` of one layer and KV head and returns one number per row, [rows]. The `rows.take` rows
    with the highest numbers are read. It is called for steps of up to 32 tokens, by several threads in turn. What it raises ends
    the model's call and is raised there.
    values: whether `rows.values` is filled.

    Further parameters of score() become options of the policy; each needs a default that is a number, a text, True or False
    (written on and off in kv_select). All policies also have the options budget, sinks, recent, dense_layers, least and loss.

    A policy with the name, summary and options of an earlier one replaces it in models that are opened from then on. Raises
    kvick.Error for an invalid name or option, or if the name is in use with another summary or other options.
    """
    import numpy
    defaults = _defaults(score)

    def make(texts: dict[str, str]) -> "Callable[..., numpy.ndarray]":
        options = {option: _value(name, option, texts[option], default) for option, default in defaults.items()}

        def choose(*fields: Any) -> "numpy.ndarray":
            rows = Candidates(*fields)
            scores = numpy.asarray(score(rows, **options), dtype=numpy.float32)
            if scores.shape != (len(rows.keys),):
                raise Error(f"policy {name} gave scores of shape {list(scores.shape)} for {len(rows.keys)} rows: it must give one number for each")
            return scores
        return choose

    _kvick.add_policy(name, summary, [(option, _text(default)) for option, default in defaults.items()], values, make)


def _defaults(score: Callable[..., Any]) -> dict[str, OptionValue]:
    """The options of a policy with their defaults: all parameters of score() but the first."""
    defaults = {}
    for parameter in list(inspect.signature(score).parameters.values())[1:]:
        if not isinstance(parameter.default, (bool, int, float, str)):
            raise Error(f"option {parameter.name} of a policy needs a default that is a number, a text, True or False")
        defaults[parameter.name] = parameter.default
    return defaults


def _text(value: OptionValue) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def _value(policy: str, option: str, text: str, default: OptionValue) -> OptionValue:
    if isinstance(default, bool):
        if text not in ("on", "off"):
            raise Error(f"{option}={text} of {policy}: it must be on or off")
        return text == "on"
    try:
        return type(default)(text)
    except ValueError:
        raise Error(f"{option}={text} of {policy}: it must be {'a whole number' if isinstance(default, int) else 'a number'}") from None
