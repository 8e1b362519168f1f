"""The table of cache strategies, and plugins that add to it."""

import os
from typing import Any, Union

from kvick import _kvick

plugins: list[str] = []  # that were loaded, for the program
models_opened = False  # since then the table is read without a lock


def strategies() -> list[dict[str, Any]]:
    """What `kv` may name: of each its `name`, `summary`, `options`, and what holds of it (`exact`, `endless`, ...)."""
    return _kvick.strategies()


def load_plugin(path: Union[str, "os.PathLike[str]"]) -> None:
    """Adds the strategies of a shared library (docs/guides/own-strategy.md), before the first model is opened."""
    if models_opened:
        raise _kvick.Error("load plugins before the first model is opened: models read the table of strategies without a lock")
    file = os.path.abspath(os.fspath(path))
    _kvick.load_plugin(file)
    plugins.append(file)
