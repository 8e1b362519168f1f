#!/usr/bin/env python3
"""`kvick pull` with a local web server: downloads, resumed downloads, refusals, and which files remain on disk.

The environment variable KVICK is the path of the program. Uses only 127.0.0.1.
"""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

from model_server import DEFAULT_ETAG, ModelServer, in_turn, model_bytes, redirect, reply, send_file, send_status, stall

KVICK = os.environ["KVICK"]
DATA = model_bytes()
SHA = hashlib.sha256(DATA).hexdigest()


class PullTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext2(ModelServer())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.cache = self.top / "cache" / "kvick" / "models"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "XDG_CACHE_HOME": str(self.top / "cache"),
                    "HF_ENDPOINT": self.server.url, "LC_ALL": "C"}

    def enterContext2(self, manager):  # unittest has enterContext since Python 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def command(self, *arguments):
        return [KVICK, "pull", "--retry-wait", "0.01", *arguments]

    def pull(self, *arguments, status=0):
        done = subprocess.run(self.command(*arguments), env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, status, done)
        return done

    def pull_json(self, *arguments):
        lines = self.pull("--json", *arguments).stdout.splitlines()
        self.assertEqual(len(lines), 1, lines)
        return json.loads(lines[0])

    def refused(self, *arguments, status, says):
        """Checks that a pull with --quiet fails: it prints one line that matches `says`, and leaves no model in the cache."""
        done = self.pull("--quiet", *arguments, status=status)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("kvick: "), lines)
        self.assertRegex(lines[0], says)
        self.assertEqual(done.stdout, "")
        self.assertEqual([f for f in self.files() if ".part" not in f], [])
        return lines[0]

    def url(self, path="/models/m.gguf"):
        return self.server.url + path

    def serve(self, route, path="/models/m.gguf"):
        self.server.routes[path] = route
        return self.url(path)

    def at(self, path="models/m.gguf"):
        return self.cache / "url" / f"127.0.0.1_{self.server.port}" / path

    def files(self):
        return sorted(str(p.relative_to(self.top)) for p in self.top.rglob("*") if p.is_file())

    def part(self):
        return self.at("models/.m.gguf.part")

    def assert_installed(self, path=None, data=DATA):
        path = path or self.at()
        self.assertEqual(path.read_bytes(), data)
        self.assertEqual(self.files(), [str(path.relative_to(self.top))], "the folder has unexpected files")

    def leave_part(self, keep=100_000, **how):
        """Runs a first pull that breaks off after `keep` bytes."""
        url = self.serve(send_file(DATA, cut=keep, **how))
        self.pull("--retries", "0", url, status=1)
        self.assertEqual(self.part().read_bytes(), DATA[:keep])
        self.server.requests.clear()
        return url


class Fetching(PullTest):
    def test_a_file_is_fetched_and_its_path_printed(self):
        done = self.pull(self.serve(send_file(DATA)))
        self.assertEqual(done.stdout, f"{self.at()}\n")
        self.assert_installed()

    def test_json_is_one_object_with_the_promised_fields(self):
        result = self.pull_json(self.serve(send_file(DATA)))
        self.assertEqual(result, {"path": str(self.at()), "bytes": len(DATA), "sha256": SHA, "resumed_bytes": 0,
                                  "already_there": False})

    def test_a_second_pull_sends_no_request(self):
        url = self.serve(send_file(DATA))
        self.pull(url)
        result = self.pull_json(url)
        self.assertTrue(result["already_there"])
        self.assertEqual(result["sha256"], SHA)
        self.assertIn("already there", self.pull(url).stderr)
        self.assertEqual(len(self.server.requests), 1)

    def test_force_fetches_again(self):
        url = self.serve(send_file(b"GGUF old"))
        self.pull(url)
        self.serve(send_file(DATA))
        self.assertFalse(self.pull_json("--force", url)["already_there"])
        self.assert_installed()

    def test_a_damaged_file_in_the_cache_is_fetched_again(self):
        url = self.serve(send_file(DATA))
        self.pull(url)
        self.at().write_bytes(DATA[:-1] + b"?")
        self.assertFalse(self.pull_json("--sha256", SHA, url)["already_there"])
        self.assert_installed()

    def test_the_checksum_may_be_given_in_either_case(self):
        self.pull("--sha256", SHA.upper(), self.serve(send_file(DATA)))
        self.assert_installed()

    def test_a_body_without_a_length_is_fetched(self):
        self.pull(self.serve(lambda handler, _: reply(handler, 200, DATA, length=False)))
        self.assert_installed()

    def test_different_queries_are_different_files(self):
        other = model_bytes(seed=2)
        a = self.pull_json(self.serve(send_file(DATA), "/m.gguf?version=1"))
        b = self.pull_json(self.serve(send_file(other), "/m.gguf?version=2"))
        self.assertEqual(pathlib.Path(a["path"]).read_bytes(), DATA)
        self.assertEqual(pathlib.Path(b["path"]).read_bytes(), other)

    def test_redirects_are_followed(self):
        self.serve(send_file(DATA), "/there.gguf")
        self.pull(self.serve(redirect(self.url("/there.gguf"))))
        self.assert_installed()

    def test_two_pulls_at_once_fetch_once(self):
        body = threading.Event()
        url = self.serve(send_file(DATA, before=lambda _: body.wait(60)))
        first = subprocess.Popen(self.command(url), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not self.server.requests:
            self.assertIsNone(first.poll(), "the first pull ended early")
        second = subprocess.Popen(self.command(url), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = second.stderr.readline().decode()
        self.assertIn("waiting", line)
        body.set()
        for pull in first, second:
            out, _ = pull.communicate(timeout=60)
            self.assertEqual(pull.returncode, 0)
            self.assertEqual(out.decode().strip(), str(self.at()))
        self.assertEqual(len(self.server.requests), 1)
        self.assert_installed()


class Continuing(PullTest):
    def test_a_cut_download_is_continued_where_it_stopped(self):
        url = self.leave_part(100_000)
        self.serve(send_file(DATA))
        result = self.pull_json("--sha256", SHA, url)
        self.assertEqual(result["resumed_bytes"], 100_000)
        (headers,) = self.server.headers_of("/models/m.gguf")
        self.assertEqual((headers["range"], headers["if-range"]), ("bytes=100000-", DEFAULT_ETAG))
        self.assert_installed()

    def test_a_cut_download_is_continued_within_one_pull(self):
        self.pull("--retries", "3", self.serve(send_file(DATA, cut=100_000)))
        self.assertEqual([h.get("range") for h in self.server.headers_of("/models/m.gguf")],
                         [None, "bytes=100000-", "bytes=200000-"])
        self.assert_installed()

    def test_an_interrupted_pull_is_continued_by_the_next(self):
        sent = threading.Event()
        half = len(DATA) // 2

        def half_then_stall(handler, _):
            reply(handler, 200, DATA[:half], length=len(DATA), ETag=DEFAULT_ETAG)
            sent.set()
            stall(handler)

        url = self.serve(half_then_stall)
        pull = subprocess.Popen(self.command(url), env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(sent.wait(60))
        while not self.part().exists() or self.part().stat().st_size < half:
            self.assertIsNone(pull.poll(), "the pull ended early")
        pull.send_signal(signal.SIGINT)
        self.assertNotEqual(pull.wait(60), 0)
        self.serve(send_file(DATA))
        self.assertEqual(self.pull_json(url)["resumed_bytes"], half)
        self.assert_installed()

    def test_without_ranges_a_download_starts_over(self):
        url = self.leave_part()
        self.serve(send_file(DATA, ranges=False))
        self.assertEqual(self.pull_json(url)["resumed_bytes"], 0)
        self.assert_installed()

    def test_without_validators_a_download_starts_over(self):
        url = self.leave_part(etag=None)
        self.serve(send_file(DATA, etag=None))
        self.assertEqual(self.pull_json(url)["resumed_bytes"], 0)
        self.assertNotIn("range", self.server.requests[0][1])
        self.assert_installed()

    def test_a_changed_file_is_downloaded_from_the_start(self):
        for honest in True, False:
            with self.subTest(if_range=honest):
                other = model_bytes(seed=5)
                url = self.leave_part()
                self.serve(send_file(other, etag='"second"', if_range=honest))
                self.assertEqual(self.pull_json(url)["resumed_bytes"], 0)
                self.assert_installed(data=other)
                self.at().unlink()

    def test_a_part_longer_than_the_file_is_discarded(self):
        url = self.leave_part()
        other = model_bytes(count=50_000)
        self.serve(send_file(other))  # same ETag; the server answers 416 because the partial file is longer than this file
        self.pull(url)
        self.assert_installed(data=other)

    def test_a_complete_part_needs_no_download(self):
        url = self.leave_part()
        self.part().write_bytes(DATA)
        self.serve(send_file(DATA))
        self.assertEqual(self.pull_json(url)["resumed_bytes"], len(DATA))
        self.assert_installed()

    def test_a_part_with_a_damaged_record_is_discarded(self):
        for damage in b"", b"{", b"[1]", b'{"url": 1, "validator": 2, "total": -3}', b"\xff\xfe":
            with self.subTest(damage=damage):
                url = self.leave_part()
                self.at("models/.m.gguf.part.json").write_bytes(damage)
                self.serve(send_file(DATA))
                self.assertEqual(self.pull_json(url)["resumed_bytes"], 0)
                self.assert_installed()
                self.at().unlink()

    def test_a_damaged_part_is_fetched_again(self):
        url = self.leave_part()
        self.part().write_bytes(DATA[:50_000] + bytes(50_000))
        self.serve(send_file(DATA))
        result = self.pull_json("--sha256", SHA, url)
        self.assertEqual((result["resumed_bytes"], result["sha256"]), (0, SHA))
        self.assert_installed()


class Refusing(PullTest):
    def test_a_file_with_a_wrong_checksum_is_discarded(self):
        line = self.refused("--sha256", "0" * 64, self.serve(send_file(DATA)), status=1, says="SHA-256")
        self.assertIn(SHA, line)
        self.assertEqual(self.files(), [])

    def test_a_missing_file_is_a_mistake_of_the_user(self):
        self.refused(self.url("/none.gguf"), status=2, says="no such file .HTTP 404.")
        self.assertEqual(self.files(), [])

    def test_a_refused_access_is_a_mistake_of_the_user(self):
        self.server.routes["/o/r/resolve/main/m.gguf"] = send_status(401)
        self.refused("hf:o/r/m.gguf", status=2, says="HF_TOKEN")

    def test_a_web_page_is_not_a_model(self):
        page = b"<!DOCTYPE html><html>log in</html>"
        self.refused(self.serve(send_file(page, Content_Type="text/html; charset=utf-8")), status=1, says="web page")
        self.refused(self.serve(send_file(b"\n " + page)), status=1, says="web page")
        self.refused(self.serve(send_file(page), "/model.bin"), status=1, says="web page")
        self.assertEqual(self.files(), [])

    def test_a_gguf_name_requires_gguf_content(self):
        self.refused(self.serve(send_file(b"version https://git-lfs.github.com/spec/v1\n")), status=1, says="not a GGUF")
        self.refused(self.serve(send_file(b"")), status=1, says="empty file")

    def test_a_content_encoding_is_refused(self):
        self.refused(self.serve(send_file(DATA, Content_Encoding="gzip")), status=1, says="gzip")

    def test_a_body_that_always_ends_early_fails(self):
        self.refused("--retries", "3", self.serve(send_file(DATA, cut=1000, ranges=False)), status=1, says="gave up after 4")
        self.assertEqual(len(self.server.requests), 4)

    def test_a_server_error_is_retried(self):
        url = self.serve(in_turn(send_status(503), send_status(500), send_status(429), send_file(DATA)))
        self.pull(url)
        self.assert_installed()

    def test_retries_are_limited(self):
        self.refused("--retries", "2", self.serve(send_status(503)), status=1, says="HTTP 503.*gave up after 3 attempts")
        self.assertEqual(len(self.server.requests), 3)

    def test_a_closed_port_fails(self):
        self.refused("--retries", "1", "http://127.0.0.1:1/m.gguf", status=1, says="[Cc]onnect")

    def test_a_stalled_transfer_fails(self):
        url = self.serve(send_file(DATA, before=stall))
        self.refused("--timeout", "1", "--retries", "0", url, status=1, says="nothing came for 1 s")

    def test_endless_redirects_fail(self):
        self.refused(self.serve(redirect("/models/m.gguf")), status=1, says="redirects")
        self.assertLess(len(self.server.requests), 20)

    def test_a_redirect_cannot_leave_http(self):
        secret = self.top / "secret.gguf"
        secret.write_bytes(DATA)
        done = self.pull(self.serve(redirect(f"file://{secret}")), status=1)
        self.assertIn("file", done.stderr)
        self.assertEqual(self.files(), ["secret.gguf"])

    def test_a_full_disk_is_detected_at_the_start(self):
        self.refused(self.serve(lambda handler, _: reply(handler, 200, DATA, length=10**18)), status=1, says="make room")

    def test_names_cannot_leave_the_cache(self):
        for name in ("hf:../../x.gguf", "hf:o/r/../../../x.gguf", "hf:o/./x.gguf", "hf:o//x.gguf", "hf:o/r/.hidden",
                     "hf:o/r/a\\b.gguf", "hf:o/r/x.gguf@../../y", "hf:o/r/a\nb", "hf:/etc/passwd", "hf:o/r/" + "x" * 300,
                     self.server.url + "/../../x.gguf", self.server.url + "/a/../x.gguf", self.server.url + "/.x"):
            with self.subTest(name=name):
                self.refused(name, status=2, says=".")
        self.assertEqual(self.server.requests, [])

    def test_an_encoded_path_is_only_a_name(self):
        self.pull(self.serve(send_file(DATA), "/%2e%2e%2fx.gguf"))
        self.assert_installed(self.at("%2e%2e%2fx.gguf"))

    def test_other_mistakes_are_reported(self):
        for arguments, says in ((["nonsense"], "smollm2"), (["ftp://host/x.gguf"], "http"), (["file:///etc/passwd"], "http"),
                                (["http://"], "URL"), ([self.server.url], "folder"), (["hf:o/r:"], "hf:owner/repo"), (["hf:o"], "hf:owner/repo"),
                                (["hf:o/r/f@a@b"], "more than one"), (["hf:o/r/f@"], "revision"),
                                (["--sha256", "12", self.url()], "64"), (["--sha256", "0" * 64, "smollm2"], "contradicts"),
                                (["--retries", "-1", "smollm2"], "retries"), (["--timeout", "0", "smollm2"], "timeout"),
                                (["--wrong", "smollm2"], "wrong")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, status=2, says=says)

    def test_without_a_home_there_is_no_cache(self):
        del self.env["HOME"], self.env["XDG_CACHE_HOME"]
        self.refused("smollm2", status=2, says="XDG_CACHE_HOME")


class Hub(PullTest):
    PATH = "/owner/repo/resolve/main/sub/m.gguf"

    def test_a_file_by_owner_and_repository(self):
        self.serve(send_file(DATA), self.PATH)
        result = self.pull_json("hf:owner/repo/sub/m.gguf")
        self.assertEqual(result["path"], str(self.cache / "hf/owner/repo/sub/m.gguf"))
        self.assert_installed(self.cache / "hf/owner/repo/sub/m.gguf")

    def test_a_revision_in_both_forms(self):
        self.serve(send_file(DATA), "/o/r/resolve/refs%2Fpr%2F1/m.gguf")
        self.assertFalse(self.pull_json("hf:o/r/m.gguf@refs/pr/1")["already_there"])
        self.serve(send_file(DATA), "/o/r/resolve/v2/m.gguf")
        self.assertFalse(self.pull_json("hf:o/r@v2/m.gguf")["already_there"])
        self.assertTrue(self.pull_json("hf:o/r/m.gguf@v2")["already_there"])

    def repository(self, *files, repo="owner/repo"):
        """Serves a hub repository with these files. The content of each GGUF file is DATA."""
        siblings = json.dumps({"id": repo, "siblings": [{"rfilename": name} for name in files]}).encode()
        self.serve(send_status(200, siblings, Content_Type="application/json"), f"/api/models/{repo}/revision/main")
        for name in files:
            self.serve(send_file(DATA if name.endswith(".gguf") else b"{}"), f"/{repo}/resolve/main/{name}")

    def test_a_repository_and_a_type(self):
        self.repository("README.md", "m-Q8_0.gguf", "m-q4_k_m.gguf")
        result = self.pull_json("hf:owner/repo:Q4_K_M")
        self.assertEqual((result["path"], result["bytes"]), (str(self.cache / "hf/owner/repo/m-q4_k_m.gguf"), len(DATA)))
        self.assert_installed(self.cache / "hf/owner/repo/m-q4_k_m.gguf")
        self.assertEqual(self.pull_json("hf:owner/repo")["path"], result["path"])
        self.refused_type("hf:owner/repo:Q5_K_M", "has no Q5_K_M; it has Q4_K_M, Q8_0")

    def refused_type(self, name, says):
        done = self.pull("--quiet", name, status=2)
        self.assertRegex(done.stderr, says)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_all_parts_of_a_split_file(self):
        self.repository("m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf")
        result = self.pull_json("hf:owner/repo:q8_0")
        self.assertEqual(result["path"], str(self.cache / "hf/owner/repo/m-Q8_0-00001-of-00002.gguf"))
        self.assertEqual(result["bytes"], 2 * len(DATA))
        self.assertTrue((self.cache / "hf/owner/repo/m-Q8_0-00002-of-00002.gguf").exists())
        self.refused_type("hf:owner/none", "no such file")

    def test_a_repository_without_gguf_files_is_a_folder(self):
        self.repository("config.json", "model.safetensors", "tokenizer.json", "README.md")
        result = self.pull_json("hf:owner/repo")
        self.assertEqual(result["path"], str(self.cache / "hf/owner/repo"))
        self.assertEqual(sorted(p.name for p in (self.cache / "hf/owner/repo").iterdir()),
                         ["config.json", "model.safetensors", "tokenizer.json"])
        self.refused_type("hf:owner/repo:Q8_0", "has no GGUF file")

    def test_an_invalid_file_list_fails(self):
        self.serve(send_status(200, b"hello"), "/api/models/owner/repo/revision/main")
        self.refused("hf:owner/repo", status=1, says="is no list of files")

    def test_run_fetches_its_model(self):
        self.repository("m-Q8_0.gguf")
        done = subprocess.run([KVICK, "run", "hf:owner/repo:Q8_0", "hello"], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2, "the made bytes are no model")
        self.assertIn("fetching hf:owner/repo:Q8_0", done.stderr)
        self.assertTrue((self.cache / "hf/owner/repo/m-Q8_0.gguf").exists())

    def test_the_stated_checksum_is_checked(self):
        self.serve(send_file(DATA, etag='"cdn"'), "/cdn")
        self.serve(redirect("/cdn", X_Linked_Etag=f'"{SHA}"', X_Linked_Size=len(DATA)), self.PATH)
        self.pull("hf:owner/repo/sub/m.gguf")

    def test_a_wrong_stated_checksum_is_refused(self):
        self.serve(send_file(DATA), "/cdn")
        self.serve(redirect("/cdn", X_Linked_Etag=f'"{"0" * 64}"'), self.PATH)
        self.refused("hf:owner/repo/sub/m.gguf", status=1, says="SHA-256")
        self.serve(send_file(DATA, etag=f'"{"0" * 64}"'), self.PATH)
        self.refused("hf:owner/repo/sub/m.gguf", status=1, says="SHA-256")

    def test_the_etag_after_a_redirect_is_not_a_checksum(self):
        self.serve(send_file(DATA, etag=f'"{"0" * 64}"'), "/cdn")
        self.serve(redirect("/cdn", ETag='"0123"'), self.PATH)
        self.pull("hf:owner/repo/sub/m.gguf")

    def test_a_size_that_differs_from_the_stated_one_is_refused(self):
        self.serve(send_file(DATA), "/cdn")
        self.serve(redirect("/cdn", X_Linked_Size=len(DATA) - 1), self.PATH)
        self.refused("hf:owner/repo/sub/m.gguf", status=1, says="states 299999 bytes")
        self.serve(lambda handler, _: reply(handler, 200, DATA, length=False), "/cdn")
        self.refused("hf:owner/repo/sub/m.gguf", status=1, says="more than the 299999 bytes")

    def test_the_token_is_sent_to_the_hub_only(self):
        self.env["HF_TOKEN"] = "hf_secret"
        with ModelServer() as cdn:
            cdn.routes["/there.gguf"] = send_file(DATA)
            self.serve(redirect(f"http://localhost:{cdn.port}/there.gguf"), self.PATH)
            self.pull("hf:owner/repo/sub/m.gguf")
            self.assertEqual(self.server.requests[0][1]["authorization"], "Bearer hf_secret")
            self.assertEqual([h.get("authorization") for h in cdn.headers_of("/there.gguf")], [None])
            cdn.routes["/plain.gguf"] = send_file(DATA)
            self.pull(cdn.url + "/plain.gguf")  # the token is sent only to the hub, not to other URLs
            self.assertNotIn("authorization", cdn.requests[-1][1])

    def test_a_token_with_a_line_break_is_refused(self):
        self.env["HF_TOKEN"] = "a\r\nX-Evil: 1"
        self.refused("hf:owner/repo/sub/m.gguf", status=2, says="HF_TOKEN")
        self.assertEqual(self.server.requests, [])

    def test_a_password_in_a_url_is_sent_to_its_host_only(self):
        with ModelServer() as cdn:
            cdn.routes["/there.gguf"] = send_file(DATA, cut=1000)
            self.serve(redirect(f"http://localhost:{cdn.port}/there.gguf"))
            done = self.pull("--retries", "0", f"http://me:pa55word@127.0.0.1:{self.server.port}/models/m.gguf", status=1)
            self.assertTrue(self.server.requests[0][1]["authorization"].startswith("Basic "))
            self.assertNotIn("authorization", cdn.requests[0][1])
        self.assertNotIn("pa55word", done.stderr)
        self.assertNotIn("pa55word", self.at("models/.m.gguf.part.json").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=1)
