"""Installs the packages from PyPI that the tests here need in a virtual environment. PEERS is the folder for it."""

import os
import pathlib
import random
import socket
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = ((ROOT / "scripts" / "routers.txt").read_text().split() + ["openai==3.57.0", "openai-agents==0.24.0", "anthropic==2.14.0", "ollama==0.6.3", "pyzmq==27.3.0", "msgpack==1.2.4"])


def free_ports(count):
    """The first of `count` consecutive free ports, as scripts/replicas needs them. They are below the range from which the system
    takes the ports of outgoing connections, because those stay taken for a minute after a connection ends."""
    for _ in range(100):
        first = random.randrange(10_000, 32_000)
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
            return first
        except OSError:
            continue
    raise AssertionError("no free ports")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def install(name="routers", packages=PACKAGES):
    """Installs the packages in the environment PEERS/NAME; returns its Python."""
    folder = pathlib.Path(os.environ["PEERS"]).resolve() / name
    python, done = folder / "bin" / "python", folder / "done"
    if not done.exists() or done.read_text() != " ".join(packages):
        venv.create(folder, with_pip=True, clear=True)
        pip = subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", "--retries", "1", *packages],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if pip.returncode != 0 and "connection broken by" in pip.stdout + pip.stderr:
            skip("PyPI cannot be reached")
        if pip.returncode != 0:
            sys.exit(f"pip cannot install {packages}:\n{pip.stdout}{pip.stderr}")
        done.write_text(" ".join(packages))
    return python


def run_with_packages():
    """Returns the Python that has the packages. If this program runs in another, it restarts itself in that one."""
    python = install()
    if pathlib.Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), *sys.argv])
    return python
