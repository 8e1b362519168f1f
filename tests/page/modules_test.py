#!/usr/bin/env python3
"""Tests the page's modules with Node's test runner, without a browser. Without node the exit status is 77."""

import pathlib
import re
import shutil
import subprocess
import sys

NODE = shutil.which("node") or shutil.which("nodejs")
if not NODE:
    print("skipped: no node in PATH; install Debian's package nodejs")
    sys.exit(77)
version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout.strip()
if int(re.match(r"v(\d+)", version).group(1)) < 18:
    print(f"skipped: {NODE} is {version}, but the tests need version 18 or later")
    sys.exit(77)
tests = sorted(str(path) for path in pathlib.Path(__file__).resolve().parent.glob("*.test.mjs"))
sys.exit(subprocess.run([NODE, "--test", *tests], timeout=240).returncode)
