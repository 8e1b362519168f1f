"""`kvick plan`: its predictions agree with what `kvick bench` counts, and wrong options are refused."""

import pathlib
import unittest

from made_model import SMALL, CommandTest, make_model

SHAPE = "layers=2,heads=4,kv_heads=2,head_dim=32,context=300"
FIELDS = {"kv_bytes", "fast_bytes", "slow_bytes", "read_bytes_per_token", "slow_read_bytes_per_token", "copied_bytes",
          "bmc", "predicted_decode_tok_s", "fits", "advice"}


class Plan(CommandTest):
    COMMAND = "plan"

    def setUp(self):
        super().setUp()
        self.env["XDG_CACHE_HOME"] = self.models.name  # the machine is calibrated once for all tests

    def plan_of(self, *arguments, model=None):
        return self.json_of("--quiet", *arguments, model=model)

    def test_planned_bytes_equal_those_that_bench_counts(self):
        self.model = str(self.top / "wide.gguf")  # head dimension 32, as q8 needs
        make_model(self.model, *("2" if word == "4" else word for word in SMALL), "--type", "Q8_0")
        for kv, kv_type in (("virtual", "f16"), ("bmc:r=24", "q8"), ("upfront", "f16"), ("iterative", "f16"),
                            ("paged:block=16", "q8"), ("sliding:reserve=1.5", "f16")):
            cache = ("--kv", kv, "--kv-type", kv_type, "--ctx", 200)
            planned = self.plan_of(*cache, "-b", 3)
            self.assertLessEqual(FIELDS, planned.keys())
            self.COMMAND = "bench"
            counted = self.json_of(*cache, "-b", 3, "-p", 0, "-d", 136, "-n", 64, "-r", 1, "--quiet")["kv"]
            self.COMMAND = "plan"
            self.assertEqual(planned["kv_bytes"], counted["allocated_bytes"], (kv, kv_type))

    def test_latent_rows_take_one_row_per_token_and_layer(self):
        # The rows of DeepSeek-V2-Lite: 512 + 64 elements, whatever the number of heads (DeepSeek-V2, section 2.1). Its heads,
        # experts and widths are fewer here; they do not change rows.
        self.model = str(self.top / "lite.gguf")
        make_model(self.model, "--family", "deepseek2-lite", "--type", "Q8_0", "--heads", "2", "--latent", "512", "--rotated", "64",
                   "--plain", "128", "--value-dim", "128", "--context", "32768")
        for kv_type, row_bytes in (("f16", 576 * 2), ("q8", 576 // 32 * 34)):
            cache = ("--kv", "upfront", "--kv-type", kv_type, "--ctx", 32768)
            expected = 27 * 32768 * row_bytes
            self.assertEqual(self.plan_of(*cache)["kv_bytes"], expected, kv_type)
            self.COMMAND = "bench"
            counted = self.json_of(*cache, "-p", 0, "-d", 32, "-n", 2, "-r", 1, "--quiet")["kv"]["allocated_bytes"]
            self.COMMAND = "plan"
            self.assertEqual(counted, expected, kv_type)

    def test_a_shape_replaces_the_model(self):
        self.model = ""
        done = self.json_of_shape("--shape", SHAPE, "--ctx", 300, "-b", 2)
        self.assertEqual(done["tokens"], 300)
        self.assertGreater(done["predicted_decode_tok_s"], 0)
        self.assertGreater(done["bmc"]["T"], 0)
        self.assertEqual(done["read_bytes_per_token"], 300 * 2 * 2 * 32 * 2 * 2)

    def json_of_shape(self, *arguments):
        import json
        import subprocess

        from made_model import KVICK
        done = subprocess.run([KVICK, "plan", *map(str, arguments), "--threads", "2", "--json", "--quiet"],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def test_ranks_over_a_network(self):
        self.model = ""
        shape = ("--shape", SHAPE, "--ctx", 200, "--ranks", 2, "--network")
        fast, slow = (self.json_of_shape(*shape, network)["ranks"] for network in ("100Gb/s,0us", "10Mb/s,5ms"))
        self.assertEqual(fast["ranks"], 2)
        for split in ("tensor", "pipeline"):
            for load in ("one", "many"):
                self.assertGreater(fast[split][f"predicted_{load}_tok_s"], slow[split][f"predicted_{load}_tok_s"])
            self.assertGreater(slow[split]["predicted_prefill_s"], fast[split]["predicted_prefill_s"])
        # Four all-reduces, three messages and the logits: eight transfers of at least 5 ms each.
        self.assertGreater(slow["tensor"]["token_s"]["network"], 8 * 5e-3)
        self.assertLess(slow["tensor"]["token_s"]["network"], 8 * 5e-3 + 0.1)
        # One hop between stages, three messages and the logits: five latencies of 5 ms, and 102 ms for 32,000 floats.
        self.assertGreater(slow["pipeline"]["token_s"]["network"], 5 * 5e-3 + 0.102)
        self.assertLess(slow["pipeline"]["token_s"]["network"], 5 * 5e-3 + 0.105)
        self.assertEqual(slow["replicas"]["token_s"]["network"], 0)
        alone = self.json_of_shape("--shape", SHAPE, "--ctx", 200)
        self.assertLess(fast["tensor"]["weight_bytes"], 0.6 * alone["weight_bytes"])
        self.assertLess(fast["pipeline"]["weight_bytes"], alone["weight_bytes"])
        # Three ranks can divide the layers, but not the heads.
        three = self.json_of_shape("--shape", SHAPE.replace("layers=2", "layers=3"), "--ctx", 200, "--ranks", 3, "--network", "10Gb/s,1us")
        self.assertIsNone(three["ranks"]["tensor"])
        self.assertGreater(three["ranks"]["pipeline"]["predicted_one_tok_s"], 0)
        self.assertNotIn("ranks", alone)
        self.model = str(self.models.name) + "/model.gguf"
        self.refused("--ranks", 2, says="--ranks and --network belong together")
        self.refused("--network", "10Gb/s,30us", says="--ranks and --network belong together")
        self.refused("--ranks", 2, "--network", "fast", says="no rate and latency such as 10Gb/s,30us")
        self.refused("--ranks", 5, "--network", "10Gb/s,30us", says="start at most 2")

    def test_the_largest_context_that_fits_is_found(self):
        whole = self.plan_of("--ctx", 256, "--kv", "paged:block=32")
        memory = whole["weight_bytes"] + whole["kv_bytes"] // 2
        half = self.plan_of("--ctx", 256, "--kv", "paged:block=32", "--memory", memory)
        self.assertTrue(whole["fits"])
        self.assertFalse(half["fits"])
        self.assertEqual(half["largest_context"], 128)
        self.assertEqual(half["largest_batch"], 0)
        self.assertIn("there is room for 128 tokens per sequence", " ".join(half["advice"]))

    def test_kv_memory_limits_the_cache(self):
        whole = self.plan_of("--ctx", 256, "--kv", "paged:block=32")
        half = self.plan_of("--ctx", 256, "--kv", "paged:block=32", "--kv-memory", whole["kv_bytes"] // 2)
        self.assertEqual((whole["kv_memory_bytes"], half["kv_memory_bytes"]), (None, whole["kv_bytes"] // 2))
        self.assertEqual((half["fits"], half["largest_context"], half["largest_batch"]), (False, 128, 0))
        self.assertRegex(" ".join(half["advice"]), "the cache takes .*, but --kv-memory allows .*: there is room for 128 tokens")
        self.assertTrue(self.plan_of("--ctx", 256, "--kv", "paged:block=32", "--kv-memory", whole["kv_bytes"])["fits"])

    def test_experts_may_take_less_memory_than_all_of_them(self):
        moe = f"{self.top}/moe.gguf"
        make_model(moe, "--family", "qwen3moe", "--type", "Q8_0", "--experts", "8", "--expert-ffn", "1024", "--layers", "4")
        whole = self.json_of("--quiet", "--ctx", 64, model=moe)
        some = self.json_of("--quiet", "--ctx", 64, "--expert-memory", "1MiB", model=moe)
        dense = self.json_of("--quiet", "--ctx", 64, "--expert-memory", 1, model=moe)
        self.assertEqual(some["weight_bytes"] - dense["weight_bytes"], (1 << 20) - 1)
        self.assertGreater(whole["weight_bytes"], some["weight_bytes"])
        tight = self.json_of("--quiet", "--ctx", 64, "--memory", whole["weight_bytes"] - 1, model=moe)
        self.assertIn("--expert-memory keeps those", " ".join(tight["advice"]))

    def test_states_of_bf16_take_half_the_memory(self):
        states = f"{self.top}/states.gguf"
        make_model(states, "--family", "qwen35", "--context", "256")
        exact, half = (self.plan_of("--ctx", 200, "-b", 3, "--kv-type", kv_type, model=states)
                       for kv_type in ("state=f32", "state=bf16"))
        self.assertEqual((exact["kv_type"], half["kv_type"]), ("f16", "f16,state=bf16"))
        self.assertEqual({group["keeps"] for group in half["groups"]}, {"rows", "state"})
        for one, other in zip(exact["groups"], half["groups"]):
            factor = 2 if one["keeps"] == "state" else 1
            self.assertEqual(one["kv_bytes"], factor * other["kv_bytes"], one)
        limit = ("--ctx", 200, "-b", 3, "--kv-memory", half["kv_bytes"], "--kv-type")
        self.assertTrue(self.plan_of(*limit, "state=bf16", model=states)["fits"])
        self.assertFalse(self.plan_of(*limit, "state=f32", model=states)["fits"])
        self.refused("--ctx", 200, "--kv-type", "state=bf16", says="no layer of this model keeps one: leave it out of --kv-type")

    def test_a_plan_is_printed_as_a_table(self):
        text = self.kvick("--quiet", "--ctx", 128).stdout
        for word in ("strategy", "virtual", "iterative", "paged", "last token", "bmc: T ="):
            self.assertIn(word, text)

    def test_bmc_is_planned_for_steps_with_draft_tokens(self):
        done = self.plan_of("--attn", "bmm", "--kv-type", "f32", "--kv", "bmc", "--spec-rows", 8, "--spec-tokens", 2.5)
        self.assertEqual((done["bmc"]["k"], done["bmc"]["m"]), (8, 2.5))
        self.assertGreater(done["bmc"]["T"], 0)

    def test_a_policy_reads_less(self):
        every = self.json_of("--ctx", 200)
        some = self.json_of("--ctx", 200, "--kv-select", "quest:budget=0.25,dense_layers=0,least=64")
        self.assertEqual(some["kv_select"], "quest:budget=0.25,dense_layers=0,least=64")
        self.assertLess(some["read_bytes_per_token"], 0.6 * every["read_bytes_per_token"])

    def test_a_policy_that_forgets_needs_room_for_a_step_of_a_prompt(self):
        select = ("--ctx", 256, "--kv-select", "snapkv:budget=32,drop=1,window=8")
        whole = self.plan_of(*select)
        self.assertGreater(whole["step_bytes"], 0)
        self.assertEqual(self.plan_of("--ctx", 256)["step_bytes"], 0)
        enough = whole["kv_bytes"] + whole["step_bytes"]
        self.assertTrue(self.plan_of(*select, "--kv-memory", enough)["fits"])
        less = self.plan_of(*select, "--kv-memory", enough - 1)
        self.assertFalse(less["fits"])
        self.assertIn("but --kv-memory allows", " ".join(less["advice"]))
        self.assertIn("while a step reads a prompt, of", self.kvick("--quiet", *select).stdout)

    def test_bmm_needs_rows_that_it_can_multiply(self):
        self.refused("--attn", "bmm", says="attention by bmm multiplies rows of float32 only: add --kv-type f32")
        self.refused("--attn", "bmm", "--kv-type", "f32", "--kv", "paged", says="needs rows in one piece, which paged does not keep")
        self.refused("--attn", "bmm", "--kv-type", "f32", "--kv-select", "quest", says="reads all rows of a bucket, but quest")

    def test_json_is_valid_if_a_name_is_not_utf_8(self):
        odd = self.top / "odd.gguf"
        odd.write_bytes(pathlib.Path(self.model).read_bytes().replace(b"random llama", b"r\xffndom llama", 1))
        self.assertIn("r\ufffdndom llama", self.plan_of("--ctx", 64, model=str(odd))["model"])

    def test_escape_sequences_in_a_models_name_are_removed(self):
        odd = self.top / "odd.gguf"
        odd.write_bytes(pathlib.Path(self.model).read_bytes().replace(b"random llama", b"\x1b[2Jom llama", 1))
        self.assertTrue(self.kvick("--quiet", "--ctx", 64, model=str(odd)).stdout.startswith("?[2Jom llama seed"))
        self.assertTrue(self.plan_of("--ctx", 64, model=str(odd))["model"].startswith("\x1b[2Jom llama"))
        self.refused("--ctx", 64, "--expert-memory", 1, model=str(odd), says=r"^kvick: \?\[2Jom llama.* has no experts")
        self.COMMAND = "bench"
        self.assertTrue(self.kvick("--quiet", "--ctx", 64, "-p", 8, "-n", 2, "-r", 1, model=str(odd)).stdout.startswith("?[2Jom llama seed"))

    def test_a_policy_needs_a_layer_with_keys(self):
        latent = f"{self.top}/latent.gguf"
        make_model(latent, "--family", "deepseek2-lite", "--type", "Q8_0", "--odd-type", "F32")
        self.refused("--kv-select", "quest", says="no layer of this model keeps them: leave --kv-select out", model=latent)

    def test_prompts_on_tiles_need_a_processor_that_has_them(self):
        self.env["KVICK_ISA"] = "scalar"
        self.refused("--prompt-arithmetic", "tiles", says="prompts on tiles need amx, but this runs on scalar: ask for auto")

    def test_wrong_options_are_refused(self):
        self.refused("--spec-rows", 2, "--spec-tokens", 3, says="a step of 2 rows cannot give 3 tokens")
        self.refused("--shape", SHAPE, says="a model or a --shape, not both")
        self.refused("--ctx", 100000, says="a context of 100000 tokens was asked for, but the model has 256")
        self.refused("--expert-memory", "1MiB", says="has no experts that could stay on the disk: leave --expert-memory out")
        self.refused("--rank-activations", "int8", says="--rank-activations is the type of what --ranks send each other: give both")
        self.refused("--kv", "bmc:r=0", says="r='0' is not a whole number")
        self.refused("--kv-type", "q8", says="of 16 elements a head cannot be kept as Q8")
        self.refused("--kv-type", "q5", says="cache rows of type \"q5\" do not exist")


if __name__ == "__main__":
    unittest.main()
