#!/usr/bin/env python3
"""Tests tools/small_models. What needs torch, transformers or tokenizers is skipped where they are not installed."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import shapes  # noqa: E402
import train  # noqa: E402

SIZES = {"dim": 64, "layers": 7, "heads": 4, "kv_heads": 2, "head_dim": 32, "context": 64}


def sizes(**changed):
    return types.SimpleNamespace(**SIZES | changed)


def installed(*names):
    return all(importlib.util.find_spec(name) for name in names)


class Configuration(unittest.TestCase):
    def test_all_families_have_the_given_sizes(self):
        for family, model_type in ("qwen3", "qwen3"), ("gemma3", "gemma3_text"), ("qwen35", "qwen3_5_text"), ("falcon-h1", "falcon_h1"):
            values = shapes.FAMILIES[family](sizes(), 300)
            self.assertEqual(values["model_type"], model_type)
            self.assertEqual((values["vocab_size"], values["hidden_size"], values["intermediate_size"]), (300, 64, 192))
            self.assertEqual((values["num_attention_heads"], values["num_key_value_heads"], values["head_dim"]), (4, 2, 32))
            self.assertEqual((values["num_hidden_layers"], values["max_position_embeddings"]), (7, 64))
            self.assertEqual(values["eos_token_id"], shapes.END)
            json.dumps(values)

    def test_every_sixth_layer_of_gemma3_sees_the_whole_context(self):
        values = shapes.gemma3(sizes(), 300)
        self.assertEqual([kind == "full_attention" for kind in values["layer_types"]], [False] * 5 + [True, False])
        self.assertEqual(values["sliding_window"], 16)
        self.assertEqual(values["query_pre_attn_scalar"], 32)

    def test_every_fourth_layer_of_qwen35_has_attention(self):
        values = shapes.qwen35(sizes(), 300)
        self.assertEqual([kind == "full_attention" for kind in values["layer_types"]], [False] * 3 + [True] + [False] * 3)
        self.assertEqual((values["linear_num_key_heads"], values["linear_num_value_heads"]), (2, 4))
        self.assertEqual((values["linear_key_head_dim"], values["linear_value_head_dim"]), (32, 32))

    def test_the_state_of_falcon_h1_is_twice_as_wide_as_the_hidden_state(self):
        values = shapes.falcon_h1(sizes(), 300)
        self.assertEqual(values["mamba_n_heads"] * values["mamba_d_head"], values["mamba_d_ssm"])
        self.assertEqual(values["mamba_d_ssm"], values["mamba_expand"] * 64)

    def test_the_rotary_bases_are_those_of_the_published_models(self):
        for family, base in ("qwen35", 1e7), ("falcon-h1", 1e11):
            self.assertEqual(shapes.FAMILIES[family](sizes(), 300)["rope_parameters"]["rope_theta"], base)
        self.assertEqual(shapes.qwen3(sizes(), 300)["rope_parameters"]["rope_theta"], 1e6)
        bases = {kind: value["rope_theta"] for kind, value in shapes.gemma3(sizes(), 300)["rope_parameters"].items()}
        self.assertEqual(bases, {"sliding_attention": 1e4, "full_attention": 1e6})

    def test_sizes_of_which_no_model_can_be_made_are_refused(self):
        shapes.check("gemma3", sizes(layers=6), 257)
        for family, changed, vocab, words in (
                ("qwen3", {"dim": 0}, 300, "--dim 0: must be at least 1"), ("qwen3", {}, 256, "--vocab 256: must be at least 257"),
                ("qwen3", {"dim": 100}, 300, "--dim 100: must be a multiple of 32"),
                ("qwen3", {"head_dim": 48}, 300, "--head-dim 48: must be a multiple of 32"),
                ("qwen3", {"heads": 3}, 300, "--heads 3: must be a multiple of --kv-heads 2"),
                ("qwen3", {"context": 7}, 300, "--context 7: must be at least 8"),
                ("gemma3", {"layers": 5}, 300, "--layers 5: gemma3 needs at least 6"),
                ("qwen35", {"layers": 3}, 300, "--layers 3: qwen35 needs at least 4")):
            with self.assertRaises(ValueError) as caught:
                shapes.check(family, sizes(**changed), vocab)
            self.assertIn(words, str(caught.exception))
        shapes.check("qwen3", sizes(layers=5), 300)
        shapes.check("falcon-h1", sizes(layers=1), 300)


class Options(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.text = self.folder / "text.txt"
        self.text.write_text("To be, or not to be.\n" * 50)

    def parsed(self, *options, family="qwen3"):
        return train.parsed([family, str(self.text), "-o", str(self.folder / "new"), *options])

    def refusal(self, *options, family="qwen3"):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as caught:
            self.parsed(*options, family=family)
        self.assertEqual(caught.exception.code, 2)
        return said.getvalue()

    def test_the_defaults_make_a_model_of_each_family(self):
        for family in shapes.FAMILIES:
            args = self.parsed(family=family)
            self.assertEqual(vars(args.sizes), {name: default for name, (default, _) in train.SIZES.items()})
            self.assertEqual(args.contents, [self.text.read_text()])

    def test_help_names_every_option_with_its_default(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as caught:
            train.parsed(["--help"])
        self.assertEqual(caught.exception.code, 0)
        said = " ".join(said.getvalue().split())
        for name, (default, what) in (train.SIZES | train.COUNTS).items():
            self.assertIn(f"--{name.replace('_', '-')} N {what} (default: {default})", said)

    def test_wrong_numbers_are_refused(self):
        for options, words in ((("--batch", "0"), "--batch 0: must be at least 1"), (("--steps", "-1"), "--steps -1: must be at least 1"),
                               (("--threads", "0"), "--threads 0: must be at least 1"), (("--rate", "0"), "--rate 0.0: must be above 0"),
                               (("--rate", "nan"), "--rate nan: must be above 0"), (("--heads", "3"), "--heads 3: must be a multiple")):
            self.assertIn(words, self.refusal(*options))
        self.assertIn("--layers 3: gemma3 needs", self.refusal("--layers", "3", family="gemma3"))
        self.assertIn("invalid choice: 'llama'", self.refusal(family="llama"))

    def test_a_text_that_cannot_be_read_is_named(self):
        self.text = self.folder / "none.txt"
        self.assertIn("none.txt: No such file or directory", self.refusal())
        self.text.write_bytes(b"abc\xe4")
        self.assertIn("none.txt: byte 3 is not UTF-8", self.refusal())

    def test_a_folder_that_holds_something_is_left_alone(self):
        (self.folder / "new").mkdir()
        self.parsed()
        (self.folder / "new" / "config.json").write_text("{}")
        self.assertIn("is not an empty folder; give a new one to -o", self.refusal())
        self.assertIn("is not an empty folder", self.refusal("-o", str(self.text)))

    def test_without_its_packages_the_program_says_what_to_install(self):
        for name in train.PACKAGES:
            (self.folder / f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")
        done = subprocess.run([sys.executable, HERE / "train.py", "qwen3", self.text, "-o", self.folder / "new"], text=True,
                              capture_output=True, env=os.environ | {"PYTHONPATH": str(self.folder)})
        self.assertEqual(done.returncode, 1)
        self.assertIn("here; install torch, transformers, tokenizers with pip", done.stderr)
        self.assertFalse((self.folder / "new").exists())


class Training(unittest.TestCase):
    def test_the_rate_rises_for_a_tenth_of_the_steps_and_then_falls_to_almost_zero(self):
        shares = [train.share_of_rate(step, 600) for step in range(600)]
        self.assertEqual(shares[:60], sorted(shares[:60]))
        self.assertEqual(shares[59:], sorted(shares[59:], reverse=True))
        self.assertEqual((shares[59], shares[60]), (1, 1))
        self.assertTrue(0 < shares[-1] < 1e-4, shares[-1])
        self.assertEqual(train.share_of_rate(99, 5000), 1)  # the rise takes at most 100 steps
        self.assertLess(train.share_of_rate(98, 5000), 1)
        self.assertEqual(train.share_of_rate(0, 1), 1)

    def test_progress_says_how_long_is_left(self):
        self.assertEqual(train.progress(10, 50, 3.25, 5), "step 10 of 50, loss 3.250, 0.50 s a step, 20 s left")
        self.assertEqual(train.progress(100, 1200, 3.25, 60), "step 100 of 1200, loss 3.250, 0.60 s a step, 11 min left")

    def shown(self, steps, terminal):
        out = io.StringIO()
        out.isatty = lambda: terminal
        display = train.Display(steps, out)
        for step in range(steps):
            display.show(step + 1, 1.0)
        return out.getvalue()

    def test_progress_is_one_line_on_a_terminal_and_few_lines_in_a_file(self):
        self.assertEqual(self.shown(100, True).count("\r"), 100)
        self.assertEqual(self.shown(100, True).count("\n"), 1)
        lines = self.shown(107, False).splitlines()
        self.assertEqual([line.split(",")[0] for line in lines[-2:]], ["step 105 of 107", "step 107 of 107"])
        self.assertEqual(len(lines), 22)
        self.assertEqual(len(self.shown(3, False).splitlines()), 3)


class WholeRun(unittest.TestCase):
    TEXT = "The cache keeps keys and values of earlier tokens, äöü. " * 40

    @unittest.skipUnless(installed("tokenizers"), "tokenizers is not installed")
    def test_the_tokenizer_encodes_any_text_and_has_no_more_tokens_than_it_may(self):
        made = train.trained_tokenizer([self.TEXT], 300)
        self.assertEqual(made.get_vocab_size(), 300)
        for text in self.TEXT, "日本 \x00\t\n zebra":
            self.assertEqual(made.decode(made.encode(text).ids), text)
        self.assertLess(len(made.encode(self.TEXT).ids), len(self.TEXT) / 2)
        self.assertEqual(made.id_to_token(shapes.END), "<|end|>")

    @unittest.skipUnless(installed("torch", "transformers", "tokenizers"), "torch, transformers or tokenizers is not installed")
    def test_a_folder_has_all_that_kvick_reads(self):
        for family in shapes.FAMILIES:
            with tempfile.TemporaryDirectory() as folder:
                text, out = pathlib.Path(folder, "text.txt"), pathlib.Path(folder, "new")
                text.write_text(self.TEXT, encoding="utf-8")
                options = [word for name, value in SIZES.items() for word in (f"--{name.replace('_', '-')}", str(value))]
                done = subprocess.run([sys.executable, HERE / "train.py", family, text, "-o", out, *options, "--steps", "2", "--vocab", "300"],
                                      text=True, capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("step 2 of 2", done.stderr)
                names = {path.name for path in out.iterdir()}
                self.assertLessEqual({"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "training.json"}, names)
                config, kept = (json.loads((out / name).read_text()) for name in ("config.json", "training.json"))
                expected = shapes.FAMILIES[family](sizes(), 300)
                self.assertEqual({name: config[name] for name in expected}, expected)
                self.assertEqual((kept["texts"], kept["steps"], kept["vocab"], kept["dim"]), (["text.txt"], 2, 300, 64))
                self.assertEqual(len(json.loads((out / "tokenizer.json").read_text())["model"]["vocab"]), 300)


if __name__ == "__main__":
    unittest.main(verbosity=1)
