"""Calls the command-line program that is part of the package, which finds and downloads models and makes plans."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Optional, Union

from kvick import _strategies
from kvick._kvick import Error

Path = Union[str, "os.PathLike[str]"]


def program() -> str:
    """The path of the program `kvick` in this package. Raises kvick.Error if it is missing."""
    path = pathlib.Path(__file__).absolute().parent / "bin" / "kvick"
    if not path.exists():
        raise Error(f"this package lacks the program {path}: install the package again")
    return str(path)


def environment() -> dict[str, str]:
    """Environment variables for the program. It downloads the default model with `python3 -m pip`, so the folder of this Python
    comes first in PATH: its pip is then found even if the virtual environment is not activated."""
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(folder for folder in folders if folder)}


def _result(*arguments: str, progress: bool = False) -> dict[str, Any]:
    """Runs a command of the program and returns the JSON object that it prints. progress: show its progress on stderr."""
    plugins = [word for plugin in _strategies.plugins for word in ("--kv-plugin", plugin)]
    done = subprocess.run([program(), "--json", *(() if progress else ("--quiet",)), *plugins, *arguments],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None if progress else subprocess.PIPE,
                          encoding="utf-8", errors="replace", check=False, env=environment())
    if done.returncode == 0:
        return json.loads(done.stdout)
    lines = (done.stderr or "").strip().splitlines()
    said = lines[-1].removeprefix("kvick: ") if lines else f"kvick {' '.join(arguments)} failed; see its messages above"
    # Exit status 2 is a mistake of the user; 1 is a failure of the machine or the network.
    raise (Error if done.returncode == 2 else RuntimeError)(said)


def _may_be_fetched(name: str) -> bool:
    return name.startswith(("hf:", "http://", "https://")) or not ("/" in name or name.endswith(".gguf"))


def find_model(name: Path) -> str:
    """The file or folder of a model. name: an existing path, or a name that `kvick run` accepts, which is downloaded if needed."""
    text = os.fspath(name)
    if os.path.exists(text):
        return text
    try:
        return _result("inspect", text)["file"]
    except Error:
        if not _may_be_fetched(text):
            raise
    return _result("pull", text, progress=sys.stderr.isatty())["path"]


def _flags(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]


def plan(model: Optional[Path] = None, *, shape: Optional[str] = None, kv: Optional[str] = None,
         kv_type: Optional[str] = None, kv_tier: Optional[str] = None, kv_select: Optional[str] = None,
         context: Optional[int] = None, batch: Optional[int] = None, memory: Union[str, int, None] = None, threads: Optional[int] = None) -> dict[str, Any]:
    """Predicts memory and speed of a model with a cache on this machine: the result of `kvick plan --json`.

    Give either model or shape ("layers=...,..."). It measures the machine for some seconds.
    context: tokens per sequence. batch: sequences. memory: limit for weights and cache together, in bytes or as "16GB".
    docs/guides/planning-memory.md describes the fields of the result.
    """
    if (model is None) == (shape is None):
        raise Error("plan() takes either a model or a shape: give one of them")
    options = {"model": None if model is None else find_model(model), "shape": shape, "kv": kv, "kv-type": kv_type,
               "kv-tier": kv_tier, "kv-select": kv_select, "ctx": context, "batch": batch, "memory": memory, "threads": threads}
    return _result("plan", *_flags(options))
