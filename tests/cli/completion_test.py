#!/usr/bin/env python3
"""Completion scripts, in those of the shells that are installed; manual pages, checked with groff; version and health checks."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from made_model import KVICK, CommandTest
from server_process import Server

ASK_BASH = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_kvick
printf '%s\\n' "${COMPREPLY[@]}"
"""


class ToolsTest(CommandTest):
    def run_kvick(self, *arguments, status=0):
        done = subprocess.run([KVICK, *map(str, arguments)], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, status, done)
        return done

    def script(self, shell):
        path = self.top / f"kvick.{shell}"
        path.write_text(self.run_kvick("completion", shell).stdout)
        return path


class CompletionTest(ToolsTest):
    def setUp(self):
        super().setUp()
        (self.top / "bin").mkdir()
        (self.top / "bin" / "kvick").symlink_to(pathlib.Path(KVICK).resolve())
        self.env["PATH"] = f"{self.top / 'bin'}:{self.env['PATH']}"

    def bash(self, *words):
        done = subprocess.run(["bash", "--norc", "-c", ASK_BASH, "ask", self.script("bash"), *words], env=self.env, cwd=self.top,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return set(done.stdout.split())

    def test_bash_knows_each_command_of_the_help(self):
        shown = re.findall(r"^  ([a-z]+) ", self.run_kvick("--help").stdout, re.MULTILINE)
        self.assertIn("serve", shown)
        self.assertEqual(self.bash("kvick", ""), set(shown))
        self.assertEqual(self.bash("kvick", "quan"), {"quantize"})
        self.assertIn("distil", self.bash("kvick", "train", ""))

    def test_bash_knows_each_option_of_a_commands_help(self):
        for command in (("run",), ("serve",), ("train", "pca")):
            shown = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", self.run_kvick(*command, "--help").stdout, re.MULTILINE))
            self.assertGreater(len(shown), 3)
            self.assertLessEqual(shown, self.bash("kvick", *command, "--"))
            self.assertIn("--json", self.bash("kvick", *command, "--"))

    def test_bash_knows_the_values_of_sets(self):
        self.assertEqual(self.bash("kvick", "run", "--attn", ""), {"fused", "bmm"})
        self.assertEqual(self.bash("kvick", "run", "--attn", "=", "b"), {"bmm"})
        self.assertIn("paged", self.bash("kvick", "serve", "--kv", ""))
        self.assertIn("Q4_K_M", self.bash("kvick", "quantize", "--type", ""))
        self.assertEqual(self.bash("kvick", "completion", ""), {"bash", "zsh", "fish"})

    def test_bash_completes_words_with_a_colon(self):
        ask = ASK_BASH.replace('COMP_WORDS=("$@")', '_kvick_models() { echo hf:owner/name:Q8_0 other; }; COMP_LINE=$1 COMP_POINT=${#1}; shift; COMP_WORDS=("$@")')
        def bash(line, *words):
            done = subprocess.run(["bash", "--norc", "-c", ask, "ask", self.script("bash"), line, *words], env=self.env, cwd=self.top,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            return done.stdout.split()
        self.assertEqual(bash("kvick run hf:ow", "kvick", "run", "hf", ":", "ow"), ["owner/name:Q8_0"])
        self.assertEqual(bash("kvick run -m hf:", "kvick", "run", "-m", "hf", ":"), ["owner/name:Q8_0"])
        self.assertEqual(bash("kvick run -m hf:owner/name:Q", "kvick", "run", "-m", "hf", ":", "owner/name", ":", "Q"), ["Q8_0"])
        self.assertEqual(bash("kvick run ot", "kvick", "run", "ot"), ["other"])

    def test_bash_knows_files_and_pulled_models(self):
        (self.top / "question.txt").touch()
        models = self.cache / "kvick" / "models"
        models.mkdir(parents=True)
        shutil.copy(self.model, models / "tiny.gguf")
        self.assertEqual(self.bash("kvick", "run", "-f", "ques"), {"question.txt"})
        for words in (("run", "-m"), ("run",), ("chat",), ("inspect",), ("rm",)):
            self.assertIn("tiny.gguf", self.bash("kvick", *words, "ti"), words)
        self.assertNotIn("question.txt", self.bash("kvick", "run", "-n", "ques"))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completes_commands_and_values(self):
        def fish(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {self.script('fish')}; complete -C '{line}'"], env=self.env,
                                  cwd=self.top, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            return {found.split("\t")[0] for found in done.stdout.splitlines()}
        self.assertEqual(fish("kvick quan"), {"quantize"})
        self.assertEqual(fish("kvick run --attn "), {"fused", "bmm"})

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_reads_its_script(self):
        done = subprocess.run(["zsh", "-f", "-n", self.script("zsh")], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_an_unknown_shell_is_refused(self):
        self.assertIn("is none of bash, zsh, fish", self.run_kvick("completion", "tcsh", status=2).stderr)
        self.assertIn("shell is required", self.run_kvick("completion", status=2).stderr)


class ManTest(ToolsTest):
    def test_a_page_lists_the_options_of_its_command(self):
        page = self.run_kvick("man", "serve").stdout
        self.assertTrue(page.startswith(".TH KVICK\\-SERVE 1 "), page[:80])
        self.assertIn("\\fB\\-\\-port\\fR", page)
        self.assertIn("there is no command nothing", self.run_kvick("man", "nothing", status=2).stderr)

    def test_all_pages_are_written_and_groff_accepts_them(self):
        self.run_kvick("man", "--folder", self.top / "man")
        pages = sorted(path.name for path in (self.top / "man").iterdir())
        self.assertIn("kvick.1", pages)
        self.assertIn("kvick-train-distil.1", pages)
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for page in pages:
            # Not all warnings, because a line that cannot be adjusted to the width is not a mistake.
            done = subprocess.run(["groff", "-man", "-Tutf8", "-wmac", "-wchar", "-wescape", "-wmissing", "-wsyntax", "-wfont", "-wdelim",
                                   self.top / "man" / page], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)


class VersionTest(ToolsTest):
    def test_the_version_is_a_number_and_the_commit_if_known(self):
        self.assertRegex(self.run_kvick("--version").stdout, r"^\d+\.\d+\.\d+( \(commit [0-9a-f]{7,}\+?\))?\n$")


class HealthTest(ToolsTest):
    def test_a_running_server_is_healthy_and_a_stopped_one_is_not(self):
        server = Server(self.top, self.env, self.model)
        self.addCleanup(server.kill)
        url = f"http://127.0.0.1:{server.port}"
        self.assertEqual(self.run_kvick("health", "--url", url + "/").stdout, f"{url} takes requests\n")
        self.assertEqual(json.loads(self.run_kvick("health", "--url", url, "--json").stdout), {"healthy": True, "status": 200})
        self.assertEqual(self.run_kvick("health", "--port", str(server.port)).stdout, f"{url} takes requests\n")
        self.assertIn("cannot be given together", self.run_kvick("health", "--port", "1", "--url", url, status=2).stderr)
        server.kill()
        self.assertIn("does not answer", self.run_kvick("health", "--url", url, status=1).stderr)

    def test_any_status_but_200_is_unhealthy(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            asked = subprocess.Popen([KVICK, "health", "--url", f"http://127.0.0.1:{listener.getsockname()[1]}"], env=self.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            listener.settimeout(60)
            connection, _ = listener.accept()
            with connection:
                self.assertTrue(connection.recv(4096).startswith(b"GET /health HTTP/1.1\r\n"))
                connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                out, error = asked.communicate(timeout=60)
        self.assertEqual((asked.returncode, out), (1, ""))
        self.assertIn("takes no requests: status 503", error)

    def test_an_invalid_url_is_refused(self):
        self.assertIn("is no URL", self.run_kvick("health", "--url", "localhost:8080", status=2).stderr)
        self.assertIn("is no URL", self.run_kvick("health", "--url", "http://", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
