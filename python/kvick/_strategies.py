"""The table of cache strategies, and plugins that add to it."""

import os
from typing import Any, Union

from kvick import _kvick

plugins: list[str] = []  # files of the loaded plugins, which the program needs too
models_opened = False  # from the first open on, models read the table without a lock


def strategies() -> list[dict[str, Any]]:
    """The cache strategies that `kv` accepts, one dict each: `name`, `summary`, `options`, and whether it is `exact`, `endless`,
    `tiered`, has `slots`, and `shares_prefix`."""
    return _kvick.strategies()


def load_plugin(path: Union[str, "os.PathLike[str]"]) -> None:
    """Adds the strategies of a shared library (docs/guides/own-strategy.md). Raises kvick.Error if the file is not a plugin or a
    model has been opened before."""
    if models_opened:
        raise _kvick.Error("load plugins before the first model is opened: models read the table of strategies without a lock")
    file = os.path.abspath(os.fspath(path))
    _kvick.load_plugin(file)
    plugins.append(file)
