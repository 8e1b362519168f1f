#!/usr/bin/env python3
"""Schemathesis generates requests from /openapi.json, valid and invalid ones. No answer may have status 5xx, and each must match
/openapi.json.

The environment variables KVICK and MAKE_MODEL are the paths of the programs, PEERS is the folder for packages.
"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import install  # noqa: E402
from server_process import ServedTest  # noqa: E402

# Not in the environment of the other packages, because it needs other versions of their dependencies.
PACKAGES = ["schemathesis==4.32.5"]
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
EXAMPLES = 20  # per operation; the same in each run


class OpenApiTest(ServedTest):
    MODEL = ("--layers", "1", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "128", "--type", "Q8_0")
    ALWAYS = ("--name", "made")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.schemathesis = install("openapi", PACKAGES).parent / "schemathesis"

    def setUp(self):
        super().setUp()
        self.server = self.serve()

    def test_answers_match_the_document(self):
        done = subprocess.run(
            [self.schemathesis, "run", f"http://127.0.0.1:{self.server.port}/openapi.json", "--phases", "examples,fuzzing",
             "--max-examples", str(EXAMPLES), "--generation-deterministic", "--no-shrink", "--no-color",
             "--continue-on-failure", "--request-timeout", "30", "--suppress-health-check", "all", "--warnings", "off",
             "--checks", ",".join(CHECKS)],
            cwd=self.top, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=1)
