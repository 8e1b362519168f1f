#!/usr/bin/env python3
"""Tests the page of `kvick serve` in headless Chromium, with a small random model.

The environment variables KVICK and MAKE_MODEL are the paths of the programs. Needs Playwright (python3 -m pip install playwright) and
Debian's chromium, or another browser whose path is in CHROMIUM. If one is missing, the exit status is 77.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import urllib.request

from browser import WAIT_MS, BrowserTest
from playwright.sync_api import expect

KVICK = os.environ["KVICK"]
MAKE_MODEL = os.environ["MAKE_MODEL"]
# A model so slow that an answer of LONG tokens takes longer than the tests' timeout, even on a fast processor. So the server still
# generates when Stop is clicked, however late the browser does that.
MODEL = ("--layers", "12", "--dim", "768", "--ffn", "2048", "--heads", "12", "--kv-heads", "2", "--vocab", "512",
         "--context", "16384")
LONG, SHORT = "16000", "24"  # tokens
PROMPT = "the same beginning of some length, so that there is a block to be shared " * 3
COLOURS_OF_MAP = """() => [...document.querySelectorAll('.piece')].map((piece) =>
    [piece.dataset.users, getComputedStyle(piece.firstElementChild).backgroundColor])"""
COLOURS_OF_TABLE = """() => [...document.querySelectorAll('#sequences tbody i')].map((mark) =>
    getComputedStyle(mark).backgroundColor)"""


class Page(BrowserTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        top = pathlib.Path(folder.name)
        model = str(top / "model.gguf")
        subprocess.run([MAKE_MODEL, "-o", model, *MODEL, "--type", "Q8_0"], check=True, timeout=120)
        command = [KVICK, "serve", "--json", "-m", model, "--port", "0", "--threads", "2", "--kv-memory", "256MB",
                   "--kv-dir", str(top / "kv"), "--client-kv", "any"]
        cls.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end_server)
        cls.url = f"http://127.0.0.1:{json.loads(cls.server.stdout.readline())['port']}/"
        cls.start_browser()

    @classmethod
    def end_server(cls):
        cls.server.terminate()
        cls.server.terminate()  # the second signal ends the server at once, without waiting for running answers
        cls.server.wait(60)
        cls.server.stdout.close()

    def setUp(self):
        while self.metric('kvick_jobs{state="running"}') > 0:  # wait for requests of the previous test, whose page is closed
            time.sleep(0.05)
        self.page = self.open(self.url)

    def ask(self, text, longest, **settings):
        self.page.click("#open-settings")
        # Greedy decoding, and loops are allowed, so that a random model generates up to the maximum length.
        for name, value in {"temperature": "0", "max-tokens": longest, **settings}.items():
            self.page.fill(f"#{name}", value)
        self.page.select_option("#loops", "go on")
        self.page.click("#settings button[type=submit]")
        self.page.fill("#input", text)
        self.page.press("#input", "Enter")

    def wait_for(self, script):
        self.page.wait_for_function(script, timeout=WAIT_MS)

    def metric(self, name):
        with urllib.request.urlopen(self.url + "metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith(name + " ")).split()[-1])

    def wait_for_metric(self, name, value):
        end = time.monotonic() + WAIT_MS / 1000
        while self.metric(name) != value:
            if time.monotonic() > end:
                self.fail(f"{name} is {self.metric(name)}, not {value}")
            time.sleep(0.05)

    def test_an_answer_streams_into_the_page(self):
        self.ask("hello", LONG)
        text = "(document.querySelector('.message.assistant')?.textContent ?? '')"
        self.wait_for(f"() => {text}.length > 10")
        length = self.page.evaluate(f"{text}.length")
        self.wait_for(f"() => {text}.length > {length} && !document.querySelector('#stop').hidden")
        self.page.click("#stop")

    def test_a_finished_answer_shows_its_statistics(self):
        self.ask("hello", SHORT)
        expect(self.page.locator(".message.assistant .note")).to_contain_text(f"{SHORT} written", timeout=WAIT_MS)
        expect(self.page.locator("#send")).to_be_visible()

    def test_stop_cancels_the_request(self):
        cancelled = self.metric('kvick_jobs_total{end="cancelled"}')
        self.ask("hello", LONG)
        self.wait_for("() => document.querySelector('.message.assistant')?.textContent.length > 10")
        self.page.click("#stop")
        expect(self.page.locator(".message.assistant .note")).to_have_text("Stopped.", timeout=WAIT_MS)
        # The page's own job count is not used, because the page polls it and may still show the state before the request.
        self.wait_for_metric('kvick_jobs_total{end="cancelled"}', cancelled + 1)
        self.wait_for("() => document.querySelector('#jobs').textContent === '0 run, 0 wait'")
        expect(self.page.locator("#input")).to_be_focused()

    def test_a_new_chat_shows_nothing_of_the_old_answer(self):
        self.ask("hello", LONG)
        self.wait_for("() => document.querySelector('.message.assistant')?.textContent.length > 10")
        self.page.click("#clear")
        self.ask("again", SHORT)
        expect(self.page.locator(".message.assistant .note")).to_contain_text("written", timeout=WAIT_MS)
        expect(self.page.locator(".message")).to_have_count(2)

    def test_pieces_in_the_map_have_the_colours_of_the_table(self):
        self.ask(PROMPT, LONG)
        self.wait_for("() => document.querySelector('#sequences tbody i')")
        marks, pieces = self.page.evaluate(COLOURS_OF_TABLE), self.page.evaluate(COLOURS_OF_MAP)
        self.assertEqual(len(marks), 1)
        self.assertIn(marks[0], [colour for _, colour in pieces])
        self.page.locator(".piece").first.click()
        expect(self.page.locator("#detail")).to_contain_text("tokens")
        self.page.click("#stop")

    def test_a_shared_piece_shows_its_number_of_users(self):
        body = {"prompt": PROMPT, "n": 3, "max_tokens": 4000, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(self.url + "v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60):
            self.wait_for("() => [...document.querySelectorAll('.piece')].some((piece) => piece.dataset.users === '3')")
            marks = self.page.evaluate(COLOURS_OF_TABLE)
            shared = {colour for users, colour in self.page.evaluate(COLOURS_OF_MAP) if users == "3"}
        self.assertEqual(len(marks), 3)
        self.assertEqual(shared, set(marks))

    def test_the_limit_of_files_is_shown(self):
        expect(self.page.locator("#files-limit")).to_have_text("at most 4.0 GiB", timeout=WAIT_MS)

    def test_a_wrong_setting_is_reported_and_can_be_corrected(self):
        self.ask("hello", SHORT, strategy="pagd")
        expect(self.page.locator(".message.error")).to_contain_text('nknown cache strategy "pagd"', timeout=WAIT_MS)
        expect(self.page.locator("#input")).to_have_value("hello")
        self.ask("hello", SHORT, strategy="virtual")
        expect(self.page.locator(".message.assistant .note")).to_contain_text("written", timeout=WAIT_MS)

    def test_a_phone_does_not_scroll_sideways(self):
        self.page = self.open(self.url, width=390, height=844)
        self.ask(PROMPT, LONG)
        self.page.click("#open-cache")
        self.wait_for("() => document.querySelector('#sequences tbody i')")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 390)
        self.page.click("#open-cache")
        self.page.click("#open-settings")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 390)
        self.page.click("#settings button[type=submit]")
        self.page.click("#stop")

    def test_the_operators_page_shows_the_servers_metrics(self):
        self.ask("hello", SHORT)
        expect(self.page.locator(".message.assistant .note")).to_contain_text("written", timeout=WAIT_MS)
        page = self.open(self.url, path="operator")
        expect(page.locator("#groups tbody tr").first).to_contain_text("paged", timeout=WAIT_MS)
        expect(page.locator("#model")).to_contain_text("tokens of context")
        expect(page.locator("#tables")).to_contain_text("Files of prompts")
        self.assertEqual(page.locator("svg.chart").count(), 6)


if __name__ == "__main__":
    unittest.main()
