#!/usr/bin/env python3
"""Tests packaging/kvick.service: systemd-analyze rates its rules, and `kvick serve` works under them.

The environment variables KVICK and MAKE_MODEL are the paths of the programs. Needs systemd-analyze; the second part also needs
Debian's python3-seccomp and a user who may mount in a new namespace (such as root in a container). Tests whose requirements are
missing are skipped and say why.
"""

import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from cage import calls_of, settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging" / "kvick.service"
CAGE = pathlib.Path(__file__).resolve().parent / "cage.py"
PYTHON = "/usr/bin/python3"  # Debian's modules are built for this one
MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "256", "--type", "Q8_0")
# What the sources call beyond reading, writing and threads: cores, pages and forks of the cache, rows on disk and on another NUMA node, and
# events. The server would go without most of them silently.
CALLS = ["sched_setaffinity", "sched_getattr", "sched_setattr", "arch_prctl", "madvise", "memfd_create", "mbind", "get_mempolicy",
         "io_uring_setup", "io_uring_enter", "io_uring_register", "fallocate", "fadvise64", "fsync", "flock", "eventfd2", "sigaltstack"]
MOST_EXPOSURE = 20  # tenths of systemd's exposure level, whose "OK" ends at 4.0; a removed rule adds 0.1 or more
# / becomes read-only; other mounts, such as /dev, /proc and the bind mounts of $FOLDERS, do not. DROP then removes all capabilities.
MOUNTS = 'for folder in $FOLDERS; do mount --bind "$folder" "$folder"; done; mount -o remount,bind,ro /; exec "$@"'
DROP = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
TRIES = """
import errno, mmap, os, socket, sys
def failure(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
print([failure(call) for call in (
    lambda: os.mkdir("/sandbox-test"), lambda: os.mkdir(sys.argv[1] + "/made"), lambda: os.mkdir("/proc/sys/made"),
    lambda: os.chroot("/"), lambda: socket.socket(socket.AF_PACKET), lambda: socket.socket(socket.AF_INET).close(),
    lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC), lambda: mmap.mmap(-1, 4096))])
"""


def analysed(*words):
    return subprocess.run(["systemd-analyze", "--no-pager", *map(str, words)], capture_output=True, text=True)


def why_no_cage():
    """Why the unit's rules cannot be applied here, or "" if they can."""
    for program in "unshare", "setpriv", PYTHON:
        if not shutil.which(program):
            return f"{program} is not installed"
    if subprocess.run([PYTHON, "-c", "import seccomp"], capture_output=True).returncode != 0:
        return "Debian's python3-seccomp is not installed"
    tried = subprocess.run(["unshare", "-m", "sh", "-ec", "mount -o remount,bind,ro /", "sh"], capture_output=True, text=True)
    return f"mounts cannot be changed in a new namespace: {tried.stderr.strip()}" if tried.returncode != 0 else ""


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed (Debian's package systemd)")
class Unit(unittest.TestCase):
    def security(self, unit):
        return analysed("security", "--offline=true", f"--threshold={MOST_EXPOSURE}", unit)

    def test_exposure_is_at_most_the_limit(self):
        done = self.security(UNIT)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)

    def test_exposes_too_much_without_its_system_call_filter(self):
        with tempfile.TemporaryDirectory() as folder:
            weaker = pathlib.Path(folder) / "kvick.service"
            weaker.write_text(UNIT.read_text().replace("SystemCallFilter=@system-service\n", ""))
            self.assertNotEqual(self.security(weaker).returncode, 0)

    def test_the_filter_has_the_system_calls_of_the_sources(self):
        allowed = set().union(*(calls_of(name) for name in settings(UNIT)["SystemCallFilter"].split()))
        self.assertEqual([call for call in CALLS if call not in allowed], [])
        self.assertNotIn("perf_event_open", allowed)  # so the list is no list of all system calls

    def test_has_no_setting_that_systemd_does_not_know(self):
        with tempfile.TemporaryDirectory() as folder:
            installed = pathlib.Path(folder) / "kvick.service"
            text = UNIT.read_text().replace("ExecStart=kvick ", f"ExecStart={os.environ['KVICK']} ")
            for added, right in ("", True), ("NoSuchSetting=yes\n", False):
                installed.write_text(text.replace("[Service]\n", "[Service]\n" + added))
                done = analysed("verify", "--man=no", "--recursive-errors=no", installed)
                said = [line for line in done.stderr.splitlines() if "kvick.service" in line]
                self.assertEqual((done.returncode, said) == (0, []), right, done.stderr)


class Caged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("systemd-analyze"):
            raise unittest.SkipTest("systemd-analyze, which lists the sets of system calls, is not installed")
        if why := why_no_cage():
            raise unittest.SkipTest(why)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.state, self.cache = self.top / "state", self.top / "cache"
        for made in self.state, self.cache:
            made.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "XDG_CACHE_HOME": str(self.cache),
                    "FOLDERS": f"{self.state} {self.cache}"}

    def caged(self, *command):
        return ["unshare", "-m", "sh", "-ec", MOUNTS, "sh", *DROP, PYTHON, CAGE, UNIT, *map(str, command)]

    def test_forbidden_operations_fail(self):
        done = subprocess.run(self.caged(PYTHON, "-c", TRIES, self.state), capture_output=True, text=True, env=self.env)
        self.assertEqual(done.stdout.strip(), str(["EROFS", "done", "ENOENT", "EPERM", "EPERM", "done", "EPERM", "done"]), done.stderr)

    def test_the_server_works_under_the_rules_of_its_unit(self):
        model = self.top / "model.gguf"
        subprocess.run([os.environ["MAKE_MODEL"], "-o", model, *MODEL], check=True, stdin=subprocess.DEVNULL, timeout=120)
        log = self.top / "log"
        command = self.caged(os.environ["KVICK"], "--json", "serve", "-m", model, "--port", 0, "--kv-dir", self.state, "--threads", 2,
                             "--client-kv", "virtual")
        with open(log, "wb") as errors:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=self.env)
        self.addCleanup(server.stdout.close)
        self.addCleanup(lambda: server.poll() is None and server.kill())
        line = server.stdout.readline()
        self.assertTrue(line, log.read_text())
        connection = http.client.HTTPConnection("127.0.0.1", json.loads(line)["port"], timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "Who are you? " * 20}], "max_tokens": 16}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        self.assertEqual((response.status, answer["usage"]["completion_tokens"] > 0), (200, True), answer)
        # Forks of this strategy share a file in memory by the page table.
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "Who are you? " * 10, "max_tokens": 8, "n": 2, "kv": {"strategy": "virtual"}}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        self.assertEqual((response.status, len(answer.get("choices", []))), (200, 2), answer)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), 0, log.read_text())
        kept = [path for path in self.state.rglob("*") if path.is_file()]
        self.assertTrue(kept, log.read_text())


if __name__ == "__main__":
    run = unittest.main(exit=False, verbosity=2)
    for test, why in run.result.skipped:
        print(f"SKIPPED {test}: {why}", file=sys.stderr)
    everything = run.result.testsRun <= len(run.result.skipped)
    sys.exit(1 if not run.result.wasSuccessful() else 77 if everything else 0)
