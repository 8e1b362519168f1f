"""Runs the command-line program: `kvick ...` or `python -m kvick ...`."""

import os
import sys

from kvick._program import environment, program


def main() -> None:
    path = program()
    os.execve(path, [path, *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
