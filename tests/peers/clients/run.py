#!/usr/bin/env python3
"""Runs the clients of docs/reference/clients.md, at the pinned versions, against `kvick serve`, and prints a table of the results.
Not run in CI, because it installs some gigabytes from npm and PyPI.

    tests/peers/clients/run.py [NAME...]

NAME: npm, pypi, or an agent (--help lists them). The exit status is 1 if a client failed or the server refused one of its requests.
--record tests/peers/requests rewrites the agents' fixtures of tests/peers/agents_test.py. The environment variable KVICK is the path
of the program (default: build/release/kvick), PEERS the folder to install into (default: build/clients).
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build"
os.environ.setdefault("KVICK", str(BUILD / "release/kvick"))
sys.path.insert(0, str(HERE))

import scripted  # noqa: E402
from command_line import AGENTS  # noqa: E402
from recorder import Recorder  # noqa: E402
from reduced import fixture  # noqa: E402

SECONDS = 600  # for one client
NODE = json.loads((HERE / "package.json").read_text())["dependencies"]


def install_npm(folder):
    """Installs the npm packages; returns the folder of their programs."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "done").exists() or (folder / "done").read_text() != (HERE / "package.json").read_text():
        shutil.copy(HERE / "package.json", folder)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, check=True, stdin=subprocess.DEVNULL)
        shutil.copy(HERE / "package.json", folder / "done")
    return folder / "node_modules" / ".bin"


def install_python(folder, requirements):
    done = folder / "done"
    if not done.exists() or done.read_text() != requirements.read_text():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "pip", "install", "--disable-pip-version-check", "--quiet", "-r", requirements], check=True,
                       stdin=subprocess.DEVNULL)
        shutil.copy(requirements, done)
    return folder / "bin" / "python"


class Session:
    """A server with the scripted models for one client, and a recorder in front of it."""

    def __init__(self, tool, arguments):
        self.tool, self.arguments = tool, arguments

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kvick-clients-")
        self.home = pathlib.Path(self.folder.name) / "home"
        (self.home / "work").mkdir(parents=True)
        self.server = scripted.serve(pathlib.Path(self.folder.name), self.tool, self.arguments)
        self.recorder = Recorder(self.server.port, self.tool)
        self.recorder.__enter__()
        return self

    def __exit__(self, *_):
        self.recorder.__exit__()
        self.server.kill()
        self.end_left_behind()
        self.folder.cleanup()

    def run(self, command, path, **environment):
        """Returns (error or "", stdout) of a command."""
        environment = {"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "NO_COLOR": "1", **environment}
        try:
            done = subprocess.run(command, env=environment, cwd=self.home / "work", stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"did not end within {SECONDS} s", ""
        return "" if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr[-300:]}", done.stdout

    def end_left_behind(self):
        """Ends the background process that Cline leaves; its command line contains the session's folder."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.folder.name.encode() in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGTERM)

    def refused(self):
        return [f"{one.method} {one.path}: {one.status} {one.answer[:200]!r}" for one in self.recorder.exchanges if one.status != 200]


def run_packages(name, command, path, **environment):
    with Session("flip", scripted.FORM) as session:
        failed, out = session.run(command, path, KVICK_URL=session.recorder.url, KVICK_SAYS=scripted.SAID, **environment)
        rows = [json.loads(line) for line in out.splitlines()]
        wrong = [failed] if failed else session.refused()
        return rows + [{"client": name, "version": "", "what": "all", "error": one} for one in wrong]


def run_agent(name, programs, record):
    agent = AGENTS[name]
    with Session(agent.tool, agent.arguments) as session:
        command, environment = agent.prepare(session.home, session.recorder.url)
        failed, out = session.run(command, programs, **environment)
        exchanges = session.recorder.exchanges
        if record:
            kept = fixture(NODE[agent.package], exchanges, agent.tool)
            pathlib.Path(record, f"{name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        wrong = [failed] if failed else session.refused()
        if not any(agent.shows in json.dumps(one.body) for one in exchanges):
            wrong.append("no request contained the tool's result")
        if scripted.SAID not in out:
            wrong.append("it did not print the answer")
        return [{"client": name, "version": NODE[agent.package], "what": agent.what,
                 "error": "; ".join(wrong) or None}]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="npm, pypi, or: " + ", ".join(AGENTS))
    parser.add_argument("--record", metavar="FOLDER", help="write the agents' requests to this folder as fixtures")
    options = parser.parse_args()
    peers = pathlib.Path(os.environ.get("PEERS", BUILD / "clients")).resolve()
    names = options.names or ["npm", "pypi", *AGENTS]
    programs = install_npm(peers / "npm") if set(names) - {"pypi"} else None
    rows = []
    for name in names:
        if name == "npm":
            rows += run_packages(name, [programs / "node", HERE / "packages.mjs"], programs, FOLDER=str(peers / "npm"))
        elif name == "pypi":
            for file in sorted(HERE.glob("requirements*.txt")):
                python = install_python(peers / file.stem, file)
                rows += run_packages(name, [python, HERE / "packages.py", file], python.parent, LITELLM_LOCAL_MODEL_COST_MAP="True")
        else:
            rows += run_agent(name, programs, options.record)
    print("| client | version | what it did | |\n|---|---|---|---|")
    for row in rows:
        error = re.sub(r"\s+", " ", row["error"]).replace("|", "\\|") if row["error"] else ""
        print(f"| {row['client']} | {row['version']} | {row['what']} | {'failed: ' + error if error else 'works'} |")
    return 1 if any(row["error"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
