#!/usr/bin/env python3
"""Runs tools/chaos for some seconds with a fixed seed, and checks that it detects failures.

The environment variables KVICK and MAKE_MODEL are the paths of the programs.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHAOS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "chaos" / "chaos.py"
FLIP = {"at": 1, "kind": "flip_files", "seconds": 0, "target": "plain", "share": 0.5, "seed": 1}
# A kvick whose servers with --kv-dir die after two seconds. The reference servers, which have no --kv-dir, run on.
MORTAL = """#!/bin/sh
case "$*" in *--kv-dir*) (sleep 2; kill -9 $$) & ;; esac
exec "$KVICK" "$@"
"""


class Chaos(unittest.TestCase):
    def chaos(self, kvick, *arguments):
        done = subprocess.run([sys.executable, CHAOS, "--kvick", kvick, "--make-model", os.environ["MAKE_MODEL"], *arguments],
                              stdout=subprocess.PIPE, text=True, timeout=280)
        return done.returncode, json.loads(done.stdout)

    def test_faults_of_all_kinds_at_once_cause_no_failure(self):
        status, result = self.chaos(os.environ["KVICK"], "--seconds", "10", "--streams", "64", "--every", "0.5", "--seed", "137")
        self.assertEqual((status, result["failures"]), (0, {}), json.dumps(result))
        self.assertGreaterEqual(sum(result["faults"].values()), 8)  # even without the faults that need a store or a mounted disk
        self.assertGreater(result["counts"]["lost_with_a_server"], 0)
        self.assertGreater(min(result["answered"].values()), 20)

    def test_unexpected_deaths_of_servers_are_detected_and_the_schedule_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            mortal = pathlib.Path(folder) / "kvick"
            mortal.write_text(MORTAL)
            mortal.chmod(0o755)
            schedule = pathlib.Path(folder) / "schedule"
            schedule.write_text(json.dumps([FLIP]))
            status, result = self.chaos(str(mortal), "--seconds", "3", "--streams", "8", "--seed", "1", "--schedule", str(schedule))
        self.assertEqual(status, 1)
        self.assertIn("deaths", result["failures"])
        self.assertEqual(result["schedule"], [FLIP])


if __name__ == "__main__":
    unittest.main(verbosity=1)
