#!/usr/bin/env python3
"""`--packed`, which keeps a model's packed weights on disk, and `kvick packed`, which lists and deletes them."""

import json
import os
import pathlib
import re
import subprocess
import unittest

from made_model import KVICK, CommandTest, make_model


class PackedTest(CommandTest):
    COMMAND = "run"

    def setUp(self):
        super().setUp()
        self.folder = self.top / "kept"

    def answer(self, *arguments, folder=None):
        """The tokens of an answer, and kvick's messages on stderr."""
        done = self.kvick("--json", "--raw", "--ignore-eos", "-n", 8, "--temp", 0, "--packed", folder or self.folder,
                          *arguments, "hello")
        return json.loads(done.stdout)["tokens"], [line for line in done.stderr.splitlines() if line.startswith("kvick:")]

    def packed(self, *arguments, status=0):
        done = subprocess.run([KVICK, "packed", *map(str, arguments)], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, status, done)
        return done.stdout

    def files(self):
        return sorted(self.folder.glob("*"))

    def test_a_second_start_reads_the_file_and_gives_the_same_answer(self):
        plain, said = self.answer(folder="off")
        self.assertEqual(said, [])
        first, said = self.answer()
        self.assertEqual(first, plain)
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], rf"^kvick: the packed weights are kept in {self.folder}/\w+\.packed \(0\.0 GB\)")
        (file,) = self.files()
        written = file.stat()
        second, said = self.answer()
        self.assertEqual((second, said), (plain, []))
        self.assertEqual((file.stat().st_ino, file.stat().st_size), (written.st_ino, written.st_size))

    def test_a_damaged_file_is_reported_and_replaced(self):
        plain, _ = self.answer()
        (file,) = self.files()
        data = bytearray(file.read_bytes())
        for damage in ("byte", "head", "short", "empty"):
            bad = bytearray(data)
            if damage == "byte":
                bad[-500] ^= 1
            elif damage == "head":
                bad[30] ^= 1
            else:
                bad = bad[:3000] if damage == "short" else bytearray()
            file.write_bytes(bad)
            tokens, said = self.answer()
            self.assertEqual(tokens, plain, damage)
            self.assertEqual(len(said), 2, said)
            self.assertRegex(said[0], r"^kvick: .* is damaged: .*; the weights are packed again$")
            self.assertEqual(file.read_bytes(), data, damage)

    def test_a_changed_model_is_packed_again(self):
        self.answer()
        os.utime(self.model, (1, 1))
        self.answer()
        self.assertEqual(len(self.files()), 2)

    def test_weights_that_cannot_be_stored_are_packed_in_memory_and_reported(self):
        plain, _ = self.answer(folder="off")
        self.folder.write_text("a file")
        tokens, said = self.answer()
        self.assertEqual(tokens, plain)
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], rf"^kvick: packed weights are not kept: cannot make the folder {self.folder}: .*; give --packed another "
                                  r"folder, or off to pack them in memory at each start$")
        tokens, said = self.answer("--packed-size", "1MB", folder=self.top / "other")
        self.assertEqual(tokens, plain)
        self.assertRegex(said[0], r"^kvick: packed weights are not kept: they take 0\.0 GB, and .* may hold 0\.0 GB; give --packed ")
        self.assertEqual(list((self.top / "other").glob("*")), [])
        self.refused("--packed", "", "hello", says="--packed is empty: give auto, off or a folder")
        self.refused("--packed", "on", "hello", says=r"--packed on is not known: auto or off \(for a folder of that name, \./on\)$")

    def test_small_models_are_not_stored_by_default(self):
        self.kvick("--raw", "-n", 1, "hello")
        self.assertEqual(list(self.cache.rglob("*.packed")), [])

    def test_processes_may_pack_at_the_same_time(self):
        plain, _ = self.answer(folder="off")
        command = [KVICK, "run", "-m", self.model, "--json", "--raw", "--ignore-eos", "-n", "8", "--temp", "0", "--packed",
                   self.folder, "hello"]
        running = [subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True) for _ in range(4)]
        for one in running:
            out, _ = one.communicate(timeout=120)
            self.assertEqual(json.loads(out)["tokens"], plain)
        self.assertEqual([file.suffix for file in self.files()], [".packed"])
        self.assertEqual(self.answer(), (plain, []))

    def test_experts_may_stay_on_disk(self):
        moe = str(self.top / "moe.gguf")
        make_model(moe, "--family", "qwen3moe", "--type", "Q8_0")
        bench = ("bench", "-m", moe, "--threads", "2", "-p", "16", "-n", "8", "-r", "1", "--packed", self.folder)

        def run(*arguments, status=0):
            done = subprocess.run([KVICK, "--quiet", *map(str, (*bench, *arguments))], env=self.env, capture_output=True,
                                  text=True, timeout=240)
            self.assertEqual(done.returncode, status, done)
            return done

        whole = json.loads(run("--json").stdout)
        self.assertIsNone(whole["experts"])
        few = run("--expert-memory", "1KB", status=2).stderr
        least = re.search(r"give at least (\d+) MiB of the (\d+) MiB", few)
        self.assertIsNotNone(least, few)
        experts = json.loads(run("--expert-memory", f"{least[1]}MiB", "--json").stdout)["experts"]
        self.assertLessEqual(experts["bytes"], experts["limit_bytes"])
        self.assertGreater(experts["hits"], 0)
        self.assertRegex(run("--expert-memory", f"{least[1]}MiB").stdout, r"experts: \d+ of \d+ in memory")
        self.refused("--packed", "off", "--expert-memory", "1GB", "x", says="leave out --packed off")
        self.refused("--packed", self.folder, "--expert-memory", "1GB", "x", says="has no experts")

    def test_files_that_cannot_be_read_are_told_from_damaged_ones(self):
        self.folder.mkdir()
        (self.folder / "a.packed").write_text("not packed weights")
        (self.folder / "b.packed").touch()
        problems = {"a": f"damaged: {self.folder}/a.packed", "b": f"{self.folder}/b.packed is empty"}
        if os.geteuid() != 0:  # root may read everything
            (self.folder / "c.packed").write_text("another user's")
            (self.folder / "c.packed").chmod(0)
            problems["c"] = f"cannot open {self.folder}/c.packed: Permission denied"
        listed = json.loads(self.packed("--json", "--folder", self.folder))
        self.assertEqual({pathlib.Path(file["path"]).stem: (file["model"], file["problem"]) for file in listed["files"]},
                         {name: ("", problem) for name, problem in problems.items()})
        lines = self.packed("--folder", self.folder).splitlines()[1:]
        self.assertEqual(len(lines), len(problems), lines)
        for problem in problems.values():
            self.assertEqual(sum(line.endswith("  " + problem) for line in lines), 1, (problem, lines))
        deleted = json.loads(self.packed("--json", "--delete", "--folder", self.folder))
        self.assertEqual(["problem" in file for file in deleted["files"]], [False] * len(problems))
        self.assertEqual(self.files(), [])

    def test_files_are_listed_and_deleted(self):
        self.assertEqual(self.packed(), f"no packed weights in {self.cache}/kvick/packed\n")
        default = self.cache / "kvick" / "packed"
        self.answer(folder=default)
        other = pathlib.Path(self.top / "other.gguf")
        other.write_bytes(pathlib.Path(self.model).read_bytes())
        self.kvick("--raw", "-n", 1, "--packed", default, "hello", model=other)
        lines = self.packed().splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertTrue(lines[1].endswith(str(other)) and lines[2].endswith(self.model), lines)
        listed = json.loads(self.packed("--json"))
        self.assertEqual([file["model"] for file in listed["files"]], [str(other), self.model])
        self.assertEqual(listed["bytes"], sum(pathlib.Path(file["path"]).stat().st_size for file in listed["files"]))
        self.assertRegex(self.packed("--delete", "-m", other), r"^deleted 1 file, [\d.]+ .?B\n$")
        self.assertEqual([file["model"] for file in json.loads(self.packed("--json"))["files"]], [self.model])
        self.assertIn("deleted 1 file", self.packed("--delete"))
        self.assertEqual(list(default.glob("*")), [])


if __name__ == "__main__":
    unittest.main()
