#!/usr/bin/env python3
"""`--kv-tier`: answers do not change with keys and values in a slower tier, planned and counted bytes agree, and mistakes are refused."""

import unittest

from made_model import CommandTest


class TierTest(CommandTest):
    COMMAND = "ppl"

    def setUp(self):
        super().setUp()
        self.text = self.write_text(sentences=16)

    def ppl(self, *arguments):
        return self.json_of("-f", self.text, "--ctx", 128, *arguments)

    def test_every_tier_gives_the_perplexity_of_memory(self):
        # A token has 256 bytes of keys and values, so a chunk of 128 tokens needs 32 KiB of frames.
        tiers = ("ram:unit=8,fast=40KiB,size=16MiB,bandwidth=2GB/s", f"file:dir={self.top},unit=8,fast=40KiB",
                 f"file:dir={self.top},unit=8,fast=40KiB,io=pread", f"file:dir={self.top},direct=off,fast=40KiB")
        for tier in tiers:
            result = self.ppl("--kv-tier", tier, "--against", "virtual")
            self.assertEqual((result["kl_mean"], result["top1_agreement"]), (0, 1), tier)

    def test_the_planner_counts_the_bytes_of_each_tier(self):
        tier = ("--ctx", 200, "--kv-tier", "ram:unit=8,fast=40KiB,size=16MiB")
        planned = self.json_of("-f", self.text, *tier)
        self.COMMAND = "plan"
        plan = self.json_of("--quiet", *tier)
        self.assertEqual(plan["strategy"], "tiered")
        self.assertEqual((plan["fast_bytes"], plan["slow_bytes"]), (40 << 10, 25 * 4096))
        self.assertGreater(plan["slow_read_bytes_per_token"], 0)
        self.assertEqual(plan["slow_read_bytes_per_token"], planned["slow_read_bytes_per_token"])
        self.assertIn("slower tier", " ".join(plan["advice"]))

    def test_the_planner_knows_how_much_of_the_tier_a_step_needs(self):
        # A unit of one layer and head has 512 bytes, and there are two layers of two heads. At 200 tokens a step needs the four
        # newest units of a sequence, and the 24 full ones of both heads of a layer: 52 of the 128 frames in 64 KiB.
        self.COMMAND = "plan"

        def plan_of(batch, fast, size="16MiB"):
            return self.json_of("--quiet", "--ctx", 200, "-b", batch, "--kv-tier", f"ram:unit=8,fast={fast},size={size}")

        one, three = plan_of(1, "64KiB"), plan_of(3, "64KiB")
        self.assertEqual((one["fits"], one["largest_batch"]), (True, 2))
        self.assertEqual((three["fits"], three["largest_batch"], three["largest_context"]), (False, 2, 160))
        self.assertIn(f"a step of 3 sequences at 200 tokens needs {156 * 512} bytes of fast memory", " ".join(three["advice"]))
        none = plan_of(1, "1KiB")
        self.assertEqual((none["fits"], none["largest_batch"], none["largest_context"]), (False, 0, 0))
        # Eight tokens take a page of the slower tier: 25 pages for 200, where 64 KiB are 16.
        small = plan_of(1, "40KiB", "64KiB")
        self.assertEqual((small["fits"], small["largest_batch"], small["largest_context"]), (False, 0, 135))
        self.assertIn("--kv-tier has size=65536", " ".join(small["advice"]))

    def test_the_planner_knows_how_much_of_the_tier_a_prompt_needs(self):
        # A step that reads 200 tokens of a prompt writes all of their rows: 25 units in two layers of two heads, of 512 bytes each.
        self.COMMAND = "plan"

        def plan_of(tokens, fast):
            return self.json_of("--quiet", "--ctx", tokens, "--kv-tier", f"ram:unit=8,fast={fast},size=16MiB")

        one = plan_of(200, "40KiB")
        self.assertEqual((one["fits"], one["largest_batch"], one["largest_context"]), (False, 0, 160))
        self.assertIn(f"the step up to token 200 needs {25 * 4 * 512} bytes of fast memory, but --kv-tier has fast=40960",
                      " ".join(one["advice"]))
        self.assertEqual(plan_of(200, "50KiB")["fits"], True)
        # What fits runs, and what does not fit is refused.
        self.assertEqual(plan_of(192, "48KiB")["fits"], True)
        self.assertEqual(plan_of(192, "40KiB")["fits"], False)
        self.COMMAND = "bench"
        depth = ("-p", 0, "-n", 8, "-d", 184, "-r", 1)
        self.json_of("--quiet", "--kv-tier", "ram:unit=8,fast=48KiB,size=16MiB", *depth)
        self.refused("--kv-tier", "ram:unit=8,fast=40KiB,size=16MiB", *depth, says="no room in the cache: a step of 1 sequences")

    def test_the_planner_knows_how_much_of_the_tier_a_policys_step_needs(self):
        # A page of 16 tokens of one layer and head is a unit of 1 KiB. At 200 tokens a step needs the four newest ones, and in a
        # layer that reads all rows the 12 full ones of both heads. A prompt's step needs the 13 pages of all layers and heads, beside
        # the four newest ones of each other sequence.
        self.COMMAND = "plan"

        def plan_of(policy, batch=1, access="copy"):
            return self.json_of("--quiet", "--ctx", 200, "-b", batch, "--kv-select", policy, "--kv-tier",
                                f"ram:fast=64KiB,size=16MiB,access={access}")

        every, three = (plan_of("quest:dense_layers=1", batch) for batch in (1, 3))
        self.assertEqual((every["fits"], every["largest_batch"]), (True, 2))
        self.assertFalse(three["fits"])
        self.assertIn(f"a step of 3 sequences at 200 tokens needs {3 * 28 << 10} bytes of fast memory", " ".join(three["advice"]))
        some = plan_of("quest:dense_layers=0,budget=0.25,least=64")
        self.assertTrue(some["fits"])
        # 64 rows are the page that is being filled and three full ones: with the newest pages ten units a sequence. So six sequences
        # could answer at once, but the fourth leaves no room for the prompt of a fifth.
        self.assertEqual(some["largest_batch"], 4)
        # Rows that are loaded need no frames: only the pages of the prompt's step and the newest ones of the other sequences do.
        self.assertEqual(plan_of("quest:dense_layers=1", access="load")["largest_batch"], 4)

    def test_bench_counts_the_moved_bytes(self):
        self.COMMAND = "bench"
        kv = self.json_of("--quiet", "--kv-tier", "ram:unit=8,fast=24KiB,size=16MiB", "-p", 0, "-n", 8, "-d", 40, "-r", 1)["kv"]
        self.assertEqual(kv["tier"], "ram:fast=24KiB,size=16MiB,unit=8")
        self.assertLessEqual(kv["allocated_bytes"], 24 << 10)
        self.assertEqual(kv["slow_bytes"], 6 * 4096)
        self.assertGreater(kv["slow_read_bytes"], 0)
        self.assertGreater(kv["slow_written_bytes"], 0)

    def test_a_policy_reads_the_same_rows_as_in_memory(self):
        policy = ("--kv-select", "quest:budget=0.25,least=12,page=4,dense_layers=0,recent=8")
        dense = self.ppl("--kv-tier", "ram:unit=4,fast=40KiB,size=16MiB")
        some = self.ppl(*policy, "--kv-tier", "ram:fast=40KiB,size=16MiB", "--kv-type", "f16")
        in_memory = self.ppl(*policy)
        self.assertEqual(some["perplexity"], in_memory["perplexity"])
        self.assertEqual(some["kv_read_bytes_per_token"], in_memory["kv_read_bytes_per_token"])
        self.assertLessEqual(some["slow_read_bytes_per_token"], dense["slow_read_bytes_per_token"])

    def test_too_few_frames_for_a_step_are_reported(self):
        self.refused("-f", self.text, "--ctx", 128, "--kv-tier", "ram:unit=8,fast=8KiB", says="no room for a window: a step of 1")

    def test_wrong_options_are_refused(self):
        def refused(*arguments, says):
            self.refused("-f", self.text, "--ctx", 64, *arguments, says=says)
        refused("--kv-tier", "tape", says="'tape' is no tier; there are ram, numa, file")
        refused("--kv-tier", "file", says="needs the folder of a disk")
        refused("--kv-tier", "file:dir=/no/such", says="no file can be made in /no/such: No such file")
        refused("--kv-tier", "numa:node=1000", says="numa: ")
        refused("--kv-tier", "ram:fats=1", says="has no option 'fats'; did you mean fast")
        refused("--kv-tier", "ram", "--kv", "paged", says="paged keeps all rows in memory: with --kv-tier leave --kv out")
        refused("--kv-tier", "ram", "--kv-select", "sparq", says="sparq looks at keys of all rows to choose")
        refused("--kv-tier", "ram", "--kv-select", "h2o", says="h2o keeps the remaining rows in memory of its own")
        refused("--kv", "tiered", says="name one, as in --kv-tier")
        refused("--kv-tier", "ram", "--kv-type", "q8", says="of 16 elements a head cannot be kept as Q8")


if __name__ == "__main__":
    unittest.main()
