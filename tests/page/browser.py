"""Headless Chromium for tests of the page. If Playwright or Chromium is missing, importing this module exits with status 77."""

import os
import shutil
import sys
import unittest

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: Playwright is missing; install it with python3 -m pip install playwright")
    sys.exit(77)

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
if not CHROMIUM:
    print("skipped: no chromium in PATH; install Debian's package chromium, or set CHROMIUM")
    sys.exit(77)

WAIT_MS = 20_000


class BrowserTest(unittest.TestCase):
    @classmethod
    def start_browser(cls):
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    # Opens url + path. The page may request everything under url. expected: texts that the browser's console messages may contain,
    # for example when a test provokes a refused request.
    def open(self, url, width=1280, height=800, scheme="light", expected=("status of 400",), path="", **more):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more)
        self.addCleanup(context.close)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        problems = []
        page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        self.addCleanup(lambda: self.assertEqual([p for p in problems if not any(part in p for part in expected)], []))
        elsewhere = []
        page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith((url, "data:", "blob:")) else None)
        self.addCleanup(lambda: self.assertEqual(elsewhere, [], "the page asked another server"))
        page.goto(url + path)
        return page
