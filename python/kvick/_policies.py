"""The table of policies, which say what rows are read, and policies written in Python."""

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
    """The rows that a policy chooses from, in one layer and head, for the tokens of one step; all arrays are float32."""

    layer: int  # counted among the layers whose rows it chooses
    head: int  # of keys and values
    first: int  # number in the sequence of the first of these rows
    take: int  # how many of them will be read
    queries: "numpy.ndarray"  # [queries][head_dim]: of all tokens of the step and all heads that read these rows
    keys: "numpy.ndarray"  # [rows][head_dim], at their positions, as queries are
    values: "Optional[numpy.ndarray]"  # [rows][value_dim]; None unless the policy was added with values=True

    def attention(self) -> "numpy.ndarray":
        """What share of the attention each row would have if there were no others, summed over the queries: [rows]. By the usual
        scale 1 / sqrt(head_dim)."""
        import numpy
        logits = self.queries @ self.keys.T / numpy.sqrt(self.keys.shape[1])
        weights = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        return (weights / weights.sum(axis=1, keepdims=True)).sum(axis=0)


def policies() -> list[dict[str, Any]]:
    """What `kv_select` may name: of each its `name`, `summary`, `options`, and whether it `forgets` rows or `needs_file`."""
    return _kvick.policies()


def add_policy(name: str, score: "Callable[..., numpy.ndarray]", *, summary: str = "a policy in Python", values: bool = False) -> None:
    """Adds a policy that leaves rows where they are and chooses which are read: `kv_select="NAME:budget=0.25"`. Needs numpy.

    score(rows, ...) gets the `Candidates` of one layer and head and gives a number for each: the `rows.take` highest are read.
    Its further parameters, which must have defaults, are options of the policy: a number, a text, True or False (on, off).
    Besides it has those of all policies: budget, sinks, recent, dense_layers, least, loss. values: it is shown values, too. It is
    called for steps of up to 32 tokens, by several threads in turn. What it raises ends the call of the model, and comes out there.
    A policy of the same name and options takes the place of an earlier one in models that are opened from then on.
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
    """The options: its parameters but for the first."""
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
            raise Error(f"{option}={text} of {policy}: it is on or off")
        return text == "on"
    try:
        return type(default)(text)
    except ValueError:
        raise Error(f"{option}={text} of {policy}: it is {'a whole number' if isinstance(default, int) else 'a number'}") from None
