#!/usr/bin/env python3
"""Tests the pages in headless Chromium with a fake server (fake_server.py), without the kvick program.

Needs Playwright and Chromium, like page_test.py. Accessibility tests also need axe-core and are skipped without it:

    npm install --prefix build/axe axe-core@4.10.3       # or set AXE to the path of axe.min.js
"""

import json
import os
import pathlib
import re
import unittest

from browser import WAIT_MS, BrowserTest
from fake_server import FakeServer
from playwright.sync_api import expect

AXE = pathlib.Path(os.environ.get("AXE") or
                   pathlib.Path(__file__).resolve().parents[2] / "build/axe/node_modules/axe-core/axe.min.js")
WIDTHS = (1280, 390)


class FakePage(BrowserTest):
    @classmethod
    def setUpClass(cls):
        cls.start_browser()

    def setUp(self):
        self.server = FakeServer()
        self.addCleanup(self.server.close)

    def start(self, path="", **more):
        self.page = self.open(self.server.url, **more)
        if path:
            self.page.goto(self.server.url + path)
        return self.page

    def send(self, text):
        self.page.fill("#input", text)
        self.page.press("#input", "Enter")

    def ask(self, text):
        self.send(text)
        expect(self.page.locator("#send")).to_be_visible(timeout=WAIT_MS)
        expect(self.page.locator(".message.assistant").last.locator(".actions button").first).to_be_visible(timeout=WAIT_MS)

    def answers(self):
        return self.page.locator(".message.assistant")

    def last_request(self):
        return self.server.requests[-1]


class Answers(FakePage):
    def test_markdown_is_drawn_and_html_stays_text(self):
        page = self.start()
        self.ask("markdown, please")
        answer = self.answers().last
        for name, count in {"h3": 1, "ol > li": 2, "ul li": 2, "table": 1, "blockquote": 1, "pre": 1, "script": 0, "img": 0}.items():
            self.assertEqual(answer.locator(name).count(), count, name)
        expect(answer).to_contain_text("<script>")
        self.assertEqual([link.get_attribute("href") for link in answer.locator("a").all()],
                         ["https://docs.python.org/3/", "https://example.org/p.png"])
        self.assertEqual(page.title(), "kvick")

    def test_code_is_copied_as_it_is(self):
        page = self.start(permissions=["clipboard-read", "clipboard-write"])
        self.ask("markdown, please")
        page.click(".code button")
        expect(page.locator(".code button")).to_have_text("Copied")
        self.assertTrue(page.evaluate("navigator.clipboard.readText()").startswith("def reversed_copy(items):\n    "))

    def test_thoughts_are_collapsed_when_the_answer_begins(self):
        page = self.start()
        self.ask("think")
        self.assertFalse(page.locator(".thoughts").evaluate("fold => fold.open"))
        expect(self.answers().locator("> .words")).to_contain_text("It is 42.")
        page.click(".thoughts summary")
        expect(page.locator(".thoughts strong")).to_have_text("short")
        self.ask("and then?")
        self.assertIn("reasoning_content", self.last_request()["messages"][1])

    def test_json_is_shown_with_line_breaks(self):
        self.start()
        self.ask("json")
        expect(self.answers().locator("pre")).to_have_text(json.dumps({"name": "kvick", "tags": ["cache", "engine"]}, indent=2))

    def test_a_tool_call_is_shown_and_can_be_answered(self):
        page = self.start()
        self.ask_tool()
        expect(page.locator(".call")).to_contain_text("weather")
        expect(page.locator(".call pre")).to_have_text(json.dumps({"place": "Paris", "days": 3}, indent=2))
        page.fill(".call textarea", "sunny")
        page.click("text=Give this result")
        expect(self.answers().last).to_contain_text("The tool says: sunny.", timeout=WAIT_MS)
        self.assertEqual(self.last_request()["messages"][1]["tool_calls"][0]["id"], "call_1")
        self.assertEqual(self.last_request()["messages"][2], {"role": "tool", "content": "sunny", "tool_call_id": "call_1"})

    def ask_tool(self):
        self.send("use a tool")
        expect(self.page.locator(".call")).to_be_visible(timeout=WAIT_MS)

    def test_an_error_is_a_sentence_and_the_message_can_be_sent_again(self):
        page = self.start()
        self.send("fail")
        expect(page.locator(".message.error")).to_have_text('Unknown cache strategy "pagd"; there are paged, virtual and bmc.', timeout=WAIT_MS)
        expect(page.locator("#input")).to_have_value("fail")
        self.ask("hello")
        self.assertEqual(len(self.last_request()["messages"]), 1)
        self.assertEqual(page.locator(".message.error").count(), 0)

    def test_an_answer_that_is_cut_off_is_marked_and_kept(self):
        page = self.start()
        self.send("break")
        expect(page.locator(".message.error")).to_contain_text("connection ended before the answer", timeout=WAIT_MS)
        expect(self.answers()).to_contain_text("cut in the middle")
        expect(self.answers().locator(".note")).to_have_text("Not finished.")


class Talk(FakePage):
    def test_stop_keeps_the_partial_answer_and_continue_resumes_it(self):
        page = self.start()
        self.send("slow")
        expect(self.answers()).to_contain_text("word3", timeout=WAIT_MS)
        page.click("#stop")
        expect(self.answers().locator(".note")).to_have_text("Stopped.")
        expect(page.locator("#input")).to_be_focused()
        page.click("text=Continue")
        expect(page.locator("#stop")).to_be_visible()
        page.wait_for_function("() => document.querySelector('.message.assistant').textContent.match(/word0 /g).length > 1")
        page.press("#input", "Escape")
        self.assertTrue(self.last_request()["continue_final_message"])
        self.assertEqual(self.last_request()["messages"][-1]["role"], "assistant")

    def test_retry_replaces_the_answer(self):
        page = self.start()
        self.ask("one")
        page.click("text=Retry")
        expect(page.locator("#send")).to_be_visible(timeout=WAIT_MS)
        expect(self.answers()).to_have_count(1)
        self.assertEqual([m["content"] for m in self.last_request()["messages"]], ["one"])

    def test_an_edited_message_replaces_what_follows(self):
        page = self.start()
        self.ask("one")
        self.ask("two")
        page.get_by_label("Edit this message").first.click()
        page.fill(".edit textarea", "three")
        page.click("text=Send again")
        expect(self.answers()).to_contain_text("'three'", timeout=WAIT_MS)
        expect(page.locator(".message")).to_have_count(2)
        self.assertEqual([m["content"] for m in self.last_request()["messages"]], ["three"])

    def test_keyboard_shortcuts(self):
        page = self.start()
        self.ask("one")
        page.press("#input", "ArrowUp")
        expect(page.locator(".edit textarea")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator(".edit")).to_have_count(0)
        page.keyboard.press("Alt+n")
        expect(page.locator("#welcome")).to_be_visible()
        expect(page.locator("#input")).to_be_focused()
        page.fill("#input", "a")
        page.keyboard.press("Shift+Enter")
        expect(page.locator("#input")).to_have_value("a\n")

    def test_settings_are_sent_and_saved(self):
        page = self.start()
        page.click("#open-settings")
        page.fill("[name=system]", "Be brief.")
        page.fill("#temperature", "0.2")
        page.select_option("[name=spec]", "auto")
        page.fill("#strategy", "virtual")
        page.keyboard.press("Escape")
        page.reload()
        self.ask("hello")
        request = self.last_request()
        self.assertEqual(request["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual((request["temperature"], request["spec"], request["kv"]), (0.2, "auto", {"strategy": "virtual"}))

    def test_invalid_settings_are_reported_before_a_request_is_sent(self):
        page = self.start()
        page.click("#open-settings")
        page.fill("[name=tools]", "{")
        page.keyboard.press("Escape")
        self.send("hello")
        expect(page.locator(".message.error")).to_contain_text("list of tools cannot be read as JSON")
        self.assertEqual(self.server.requests, [])


class ModelChoice(FakePage):
    def test_the_only_model_is_named(self):
        page = self.start()
        expect(page.locator("#model")).to_have_text("smollm2", timeout=WAIT_MS)
        expect(page.locator("#models")).to_be_hidden()
        self.ask("hello")
        self.assertNotIn("model", self.last_request())

    def test_the_chosen_model_is_remembered(self):
        self.server.models = [{"id": "small"}, {"id": "large", "loaded": False}, {"id": "poet", "parent": "small"}]
        page = self.start()
        picker = page.get_by_label("Model", exact=True)
        expect(picker.locator("option")).to_have_text(["small", "large", "poet (adapts small)"], timeout=WAIT_MS)
        self.ask("hello")
        self.assertEqual(self.last_request()["model"], "small")
        picker.select_option("large")
        self.ask("hello")
        self.assertEqual(self.last_request()["model"], "large")
        page.reload()
        expect(picker).to_have_value("large", timeout=WAIT_MS)
        self.server.models = self.server.models[:1] + self.server.models[2:]
        page.reload()
        expect(picker).to_have_value("small", timeout=WAIT_MS)


class Kept(FakePage):
    def test_conversations_are_saved_and_can_be_opened_renamed_and_deleted(self):
        page = self.start()
        self.ask("first talk")
        page.click("#clear")
        self.ask("second talk")
        page.reload()
        names = page.locator("#conversations .name")
        expect(names).to_have_text(["second talk", "first talk"])
        names.last.click()
        expect(self.answers()).to_contain_text("first talk")
        page.get_by_label("Rename “first talk”").click()
        page.keyboard.type("Better name")
        page.keyboard.press("Enter")
        expect(names).to_have_text(["second talk", "Better name"])
        page.fill("#find", "second")
        expect(names).to_have_text(["second talk"])
        page.fill("#find", "")
        page.get_by_label("Delete “Better name”").click()
        expect(page.locator("#welcome")).to_be_visible()
        expect(names).to_have_text(["second talk"])
        page.click("text=Undo")
        expect(names).to_have_count(2)

    def test_a_running_answer_stays_in_its_conversation(self):
        page = self.start()
        self.send("slow")
        expect(self.answers()).to_contain_text("word3", timeout=WAIT_MS)
        page.click("#clear")
        self.ask("hello")
        expect(page.locator(".message")).to_have_count(2)
        page.locator("#conversations .name", has_text="slow").click()
        expect(self.answers()).to_contain_text("word3")
        expect(self.answers().locator(".note")).to_have_text("Stopped.")

    def test_a_click_on_the_open_conversation_does_not_stop_its_answer(self):
        page = self.start()
        self.send("slow")
        expect(self.answers()).to_contain_text("word3", timeout=WAIT_MS)
        page.locator("#conversations .name").click()
        expect(self.answers()).to_contain_text("word99", timeout=WAIT_MS)
        expect(page.locator("#stop")).to_be_visible()

    def test_a_conversation_that_is_deleted_while_its_answer_is_written_stays_deleted(self):
        page = self.start()
        self.send("slow")
        expect(self.answers()).to_contain_text("word3", timeout=WAIT_MS)
        page.get_by_label("Delete “slow”").click()
        self.ask("hello")
        names = page.locator("#conversations .name")
        expect(names).to_have_text(["hello"])
        page.click("text=Undo")
        expect(names).to_have_text(["hello", "slow"])

    def test_a_partial_answer_survives_closing_its_tab(self):
        page = self.start()
        self.send("slow")
        expect(self.answers()).to_contain_text("word3", timeout=WAIT_MS)
        page.reload()
        expect(self.answers()).to_contain_text("word3", timeout=WAIT_MS)
        expect(self.answers().locator(".note")).to_have_text(re.compile("Stopped|Not finished"))

    def test_thoughts_survive_closing_their_tab(self):
        self.server.pause = 2
        page = self.start()
        self.send("think")
        expect(page.locator(".thoughts")).to_contain_text("short", timeout=WAIT_MS)
        page.reload()
        expect(page.locator(".thoughts")).to_contain_text("short", timeout=WAIT_MS)
        expect(self.answers().locator(".note")).to_have_text(re.compile("Stopped|Not finished"))

    def test_two_tabs_show_the_same_conversation(self):
        page = self.start()
        self.ask("from the first tab")
        other = page.context.new_page()
        other.goto(self.server.url)
        other.fill("#input", "from the second")
        other.press("#input", "Enter")
        expect(page.locator(".message")).to_have_count(4, timeout=WAIT_MS)
        expect(self.answers().last).to_contain_text("from the second")

    def test_a_message_without_an_answer_can_be_answered_later(self):
        page = self.start()
        self.send("slow")
        expect(page.locator("#stop")).to_be_visible()
        page.evaluate("""() => {
            const name = Object.keys(localStorage).find((key) => key.startsWith('kvick.conversation.'));
            localStorage.setItem(name.replace(/[^.]*$/, 'later'), JSON.stringify(
                {id: 'later', title: 'later', updated: 4e12, messages: [{role: 'user', content: 'hello'}]}));
        }""")
        page.reload()
        page.click("text=Answer this")
        expect(self.answers()).to_contain_text("You said 'hello'", timeout=WAIT_MS)

    def test_an_exported_file_can_be_imported(self):
        page = self.start()
        self.ask("keep this")
        with page.expect_download() as download:
            page.click("#export")
        path = download.value.path()
        page.get_by_label("Delete “keep this”").click()
        expect(page.locator("#conversations .name")).to_have_count(0)
        page.set_input_files("#import-file", path)
        expect(page.locator("#conversations .name")).to_have_text(["keep this"])
        page.set_input_files("#import-file", {"name": "a.json", "mimeType": "application/json", "buffer": b"{}"})
        expect(page.locator("#list-status")).to_contain_text("no conversations of this page")

    def test_the_page_asks_for_the_key_once_per_tab(self):
        self.server.key = "secret"
        page = self.start(expected=("status of 401",))
        expect(page.locator("#key-dialog")).to_be_visible(timeout=WAIT_MS)
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-problem")).to_contain_text("does not take that key", timeout=WAIT_MS)
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        expect(page.locator("#jobs")).to_contain_text("run", timeout=WAIT_MS)
        self.ask("hello")
        page.goto(self.server.url + "operator")
        expect(page.locator("#groups tbody tr")).to_have_count(2, timeout=WAIT_MS)
        self.assertNotIn("secret", page.evaluate("JSON.stringify(localStorage)"))

    def test_after_cancelling_the_key_dialog_sending_opens_it_again(self):
        self.server.key = "secret"
        page = self.start(expected=("status of 401",))
        expect(page.locator("#key-dialog")).to_be_visible(timeout=WAIT_MS)
        page.click("#key-cancel")
        expect(page.locator("#status")).to_contain_text("asks for an API key", timeout=WAIT_MS)
        self.send("hello")
        expect(page.locator("#key-dialog")).to_be_visible()
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        expect(self.answers()).to_contain_text("You said", timeout=WAIT_MS)


class Pictures(FakePage):
    def test_the_cache_is_drawn_and_described(self):
        page = self.start()
        expect(page.locator("#words")).to_contain_text("shared by up to 3 answers", timeout=WAIT_MS)
        expect(page.locator("#words")).to_contain_text("evicted")
        page.locator(".piece").first.click()
        expect(page.locator("#detail")).to_contain_text("shared by 3 answers, request 12 among them")
        page.locator(".map").first.focus()
        page.keyboard.press("End")
        expect(page.locator("#detail")).to_contain_text("Free")
        expect(page.locator("#events")).to_contain_text("found in the cache", timeout=WAIT_MS)

    def test_an_unreachable_server_is_reported(self):
        page = self.start(expected=("ERR_",))
        expect(page.locator("#jobs")).to_contain_text("run", timeout=WAIT_MS)
        self.server.close()
        expect(page.locator("#status")).to_contain_text("cannot be reached", timeout=WAIT_MS)

    def test_both_pages_remember_the_chosen_colours(self):
        page = self.start()
        page.click("#open-settings")
        page.select_option("#theme", "dark")
        back = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(back)
        page.goto(self.server.url + "operator")
        self.assertEqual(page.evaluate(back), dark)
        page.select_option("#theme", "light")
        self.assertNotEqual(page.evaluate(back), dark)

    def test_operators_see_charts_and_tables(self):
        page = self.start("operator")
        expect(page.locator("#groups tbody tr")).to_have_count(2, timeout=WAIT_MS)
        page.wait_for_function("() => document.querySelectorAll('path.line')[2].getAttribute('d')?.includes('L')", timeout=WAIT_MS)
        expect(page.locator("#tables")).to_contain_text("Evicted to make room")
        self.assertIn("now running", page.locator("svg.chart").first.get_attribute("aria-label"))

    def test_nothing_is_wider_than_a_phone(self):
        page = self.start(width=390, height=844)
        wide = "document.documentElement.scrollWidth"
        self.ask("markdown, please")
        self.assertLessEqual(page.evaluate(wide), 390)
        for button in "#open-cache", "#open-cache", "#open-list", "#open-list", "#open-settings":
            page.click(button)
            self.assertLessEqual(page.evaluate(wide), 390, button)
        page.goto(self.server.url + "operator")
        expect(page.locator("#groups tbody tr")).to_have_count(2, timeout=WAIT_MS)
        self.assertLessEqual(page.evaluate(wide), 390)


@unittest.skipUnless(AXE.is_file(), "axe-core is missing: npm install --prefix build/axe axe-core@4.10.3, or set AXE to the path of axe.min.js")
class Accessible(FakePage):
    def check(self, what):
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("async () => (await axe.run()).violations.map((one) => [one.id, one.nodes.map((node) => node.html + node.failureSummary)])")
        self.assertEqual(found, [], what)

    def each(self):
        for scheme in "light", "dark":
            for width in WIDTHS:
                yield f"{scheme}, {width} wide", {"scheme": scheme, "width": width, "height": 844}

    def test_the_chat(self):
        for what, how in self.each():
            with self.subTest(what):
                page = self.start(**how)
                expect(page.locator("#model")).to_have_text("smollm2", timeout=WAIT_MS)
                self.check("welcome")
                for text in "think", "markdown", "json":
                    self.ask(text)
                self.send("use a tool")
                expect(page.locator(".call")).to_be_visible(timeout=WAIT_MS)
                self.check("answers")
                if how["width"] == 390:
                    page.click("#open-cache")
                expect(page.locator("#words")).to_contain_text("shared", timeout=WAIT_MS)
                self.check("cache")
                page.click("#open-settings")
                self.check("settings")

    def test_the_choice_of_a_model(self):
        self.server.models = [{"id": "Llama-3.1-8B-Instruct-with-a-long-name-Q4_K_M"}, {"id": "small"}]
        for what, how in self.each():
            with self.subTest(what):
                page = self.start(**how)
                expect(page.locator("#models")).to_be_visible(timeout=WAIT_MS)
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), how["width"])
                self.check("welcome")

    def test_the_operators_page(self):
        for what, how in self.each():
            with self.subTest(what):
                self.start("operator", **how)
                expect(self.page.locator("#groups tbody tr")).to_have_count(2, timeout=WAIT_MS)
                self.check("operator")


if __name__ == "__main__":
    unittest.main()
