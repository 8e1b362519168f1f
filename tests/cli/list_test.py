#!/usr/bin/env python3
"""`kvick list`, and the names that it shows: -m and inspect accept them, and mistyped names suggest them."""

import json
import pathlib
import re
import shutil
import subprocess
import time
import unittest

from made_model import KVICK, CommandTest

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class ListTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.folder = self.cache / "kvick" / "models"

    def run_kvick(self, *arguments, status=0):
        done = subprocess.run([KVICK, *arguments], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, status, done)
        return done

    def cached(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.model, path)
        return path

    def test_known_models_are_listed_before_they_are_fetched(self):
        shown = self.run_kvick("list").stdout.splitlines()
        self.assertEqual(len(shown), 2, shown)
        self.assertRegex(shown[1], r"^smollm2 +Q4_1 +98.4 MB +not fetched: kvick pull smollm2$")  # and no date

    def test_each_cached_model_has_a_line_with_type_size_and_path(self):
        own, pulled, broken = self.cached("own.gguf"), self.cached("hf/owner/repo/m.gguf"), self.folder / "broken.gguf"
        broken.write_bytes(b"no model")
        lines = self.run_kvick("list").stdout.splitlines()
        self.assertEqual(len(lines), 5, lines)
        for name, kind, path in (("own.gguf", "Q8_0", own), ("hf:owner/repo/m.gguf", "Q8_0", pulled),
                                 ("broken.gguf", "\\?", broken)):
            self.assertTrue(any(re.match(rf"{name} +{kind} +[\d.]+ .?B +never +{path}$", line) for line in lines), lines)

    def test_escape_sequences_in_names_are_removed(self):
        self.cached("a\x1b[2J.gguf")
        shown = self.run_kvick("list").stdout
        self.assertNotIn("\x1b", shown)
        self.assertIn("a?[2J.gguf", shown)
        self.assertIn("a\x1b[2J.gguf", [model["name"] for model in json.loads(self.run_kvick("list", "--json").stdout)["models"]])

    def test_the_last_use_is_shown(self):
        self.cached("own.gguf")
        before = int(time.time())
        self.run_kvick("run", "own", "one two", "-n", "1", "--quiet")
        self.run_kvick("inspect", "own")
        (model,) = [m for m in json.loads(self.run_kvick("list", "--json").stdout)["models"] if m["name"] == "own.gguf"]
        self.assertLessEqual(before - 1, model["used"])
        self.assertIn(time.strftime("%Y-", time.localtime(model["used"])), self.run_kvick("list").stdout)

    def test_rm_deletes_a_model_and_prints_the_freed_bytes(self):
        path, other = self.cached("hf/owner/repo/m.gguf"), self.cached("own.gguf")
        self.assertIn("give --yes", self.run_kvick("rm", "m", status=2).stderr)
        self.assertTrue(path.exists())
        said = self.run_kvick("rm", "--yes", "m").stdout
        self.assertRegex(said, rf"^deleted {path}: [\d.]+ .?B freed\n$")
        self.assertFalse(path.parent.exists())
        self.assertTrue(other.exists())
        freed = json.loads(self.run_kvick("rm", "-y", "own", "--json").stdout)
        self.assertEqual(freed, {"deleted": [{"path": str(other), "bytes": pathlib.Path(self.model).stat().st_size}]})
        self.assertIn("there is no file or model 'own'", self.run_kvick("rm", "-y", "own", status=2).stderr)
        self.assertIn("is not in the model cache", self.run_kvick("rm", "-y", self.model, status=2).stderr)

    def test_pull_lists_what_has_a_short_name(self):
        names = json.loads(self.run_kvick("pull", "--json").stdout)
        self.assertEqual(names[0]["name"], "smollm2")
        self.assertGreaterEqual(len(names), 13)
        for model in names:
            self.assertFalse(model["fetched"], model)
            self.assertTrue(model["licence"] and model["type"] and model["bytes"] > 10_000_000, model)
        lines = self.run_kvick("pull").stdout.splitlines()
        self.assertTrue(any(line.startswith("qwen3-4b") and "Apache-2.0" in line for line in lines), lines)
        self.assertNotIn("qwen3-4b", self.run_kvick("list").stdout)
        for option in (["--force"], ["--sha256", "0" * 64]):
            self.assertIn(f"{option[0]} is for a model that is fetched: name it", self.run_kvick("pull", *option, status=2).stderr)

    def test_a_short_name_is_the_file_that_was_pulled(self):
        path = self.cached("hf/Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf")
        self.assertIn(str(path), self.run_kvick("inspect", "qwen3-4b").stdout)
        self.assertIn("run `kvick pull qwen3-8b`", self.run_kvick("inspect", "qwen3-8b", status=2).stderr)

    def test_json_output(self):
        path = self.cached(FILE)
        listed = json.loads(self.run_kvick("list", "--json").stdout)
        self.assertEqual(listed["cache"], str(self.folder))
        (model,) = listed["models"]
        self.assertEqual((model["name"], model["fetched"], model["default"], model["path"]), ("smollm2", True, True, str(path)))
        self.assertEqual((model["type"], model["bytes"]), ("Q8_0", pathlib.Path(self.model).stat().st_size))
        self.assertGreater(model["parameters"], 0)

    def test_inspect_accepts_each_listed_name(self):
        for name in (FILE, "own.gguf", "hf/owner/repo/m.gguf"):
            self.cached(name)
        for model in json.loads(self.run_kvick("list", "--json").stdout)["models"]:
            shown = json.loads(self.run_kvick("inspect", model["name"], "--json").stdout)
            self.assertEqual(shown["file"], model["path"])

    def test_an_unknown_model_suggests_the_most_similar_name(self):
        self.cached("llama-small.gguf")
        for command in (("inspect", "llama-smal"), ("run", "-m", "llama-smal", "hello")):
            said = self.run_kvick(*command, status=2).stderr
            self.assertRegex(said, r"^kvick: there is no model 'llama-smal'; did you mean llama-small.gguf\?.*\n$")
        self.assertIn("kvick pull smollm2", self.run_kvick("inspect", "smollm2", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
