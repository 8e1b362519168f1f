#!/usr/bin/env python3
"""Tests of schedule.py, without servers: drawing, files and shrinking of schedules."""

import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import schedule  # noqa: E402


class Draw(unittest.TestCase):
    def test_the_seed_determines_the_schedule(self):
        self.assertEqual(schedule.draw(7, 60, 2), schedule.draw(7, 60, 2))
        self.assertNotEqual(schedule.draw(7, 60, 2), schedule.draw(8, 60, 2))

    def test_faults_are_ordered_and_end_before_the_quiet_time(self):
        for seed in range(50):
            faults = schedule.draw(seed, 30, 1)
            self.assertEqual(faults, sorted(faults, key=lambda fault: fault.at))
            self.assertEqual(len(faults), 24)
            for fault in faults:
                self.assertGreaterEqual(fault.seconds, 0)
                self.assertLessEqual(fault.at + fault.seconds, 30 * schedule.QUIET + 0.01)

    def test_all_possible_kinds_are_drawn_with_valid_targets(self):
        faults = [fault for seed in range(50) for fault in schedule.draw(seed, 60, 1)]
        self.assertEqual({fault.kind for fault in faults}, set(schedule.KINDS))
        for fault in faults:
            self.assertNotEqual((schedule.KINDS[fault.kind][0], fault.target), ("files", "several"))
            self.assertTrue(schedule.KINDS[fault.kind][0] != "ranks" or fault.target == "ranked", fault)
        for name in schedule.SERVERS:
            self.assertIn(name, {fault.target for fault in faults})

    def test_faults_that_a_machine_cannot_inject_are_not_possible(self):
        faults = [fault for seed in range(50) for fault in schedule.draw(seed, 60, 1)]

        def affected(**machine):
            left = [fault for fault in faults if schedule.possible(fault, **machine)]
            return {schedule.KINDS[fault.kind][0] for fault in left}, {fault.target for fault in left}
        everything = {on for on, *_ in schedule.KINDS.values()}
        self.assertEqual(affected(store=True, disk=True, ranks=True)[0], everything)
        self.assertEqual(affected(store=False, disk=True, ranks=True)[0], everything - {"store"})
        self.assertEqual(affected(store=True, disk=False, ranks=True)[0], everything - {"disk"})
        kinds, targets = affected(store=True, disk=True, ranks=False)
        self.assertEqual(kinds, everything - {"ranks"})
        self.assertEqual(targets, {*schedule.SERVERS, "store", "router", "machine"} - {"ranked"})

    def test_each_fault_has_its_own_seed(self):
        self.assertEqual(len({fault.seed for fault in schedule.draw(3, 60, 1)}), 48)


class File(unittest.TestCase):
    def test_a_schedule_can_be_written_and_read(self):
        faults = schedule.draw(5, 60, 2)
        self.assertEqual(schedule.from_text(schedule.to_text(faults)), faults)

    def test_an_invalid_text_is_a_value_error(self):
        good = json.loads(schedule.to_text(schedule.draw(5, 60, 2)))[0]
        for text in ("", "{", "7", "[7]", "[{}]", json.dumps([{**good, "kind": "none"}]), json.dumps([{**good, "target": "none"}]),
                     json.dumps([{**good, "at": -1}]), json.dumps([{**good, "share": 2}]), json.dumps([{**good, "more": 2}]),
                     json.dumps([{**good, "seconds": "long"}])):
            with self.assertRaisesRegex(ValueError, "^not a schedule \\(a JSON list"):
                schedule.from_text(text)


class Shrink(unittest.TestCase):
    def setUp(self):
        self.faults = schedule.draw(1, 60, 1)
        self.runs = []

    def shrink(self, *needed):
        def fails(part):
            self.runs.append(tuple(part))
            return all(self.faults[i] in part for i in needed)
        return schedule.shrink(self.faults, fails)

    def test_only_the_needed_faults_are_left(self):
        generator = random.Random(1)
        for count in (1, 2, 3, 5):
            for _ in range(10):
                needed = sorted(generator.sample(range(len(self.faults)), count))
                self.assertEqual(self.shrink(*needed), [self.faults[i] for i in needed])

    def test_one_fault_of_many_is_found_in_few_distinct_runs(self):
        self.assertEqual(self.shrink(17), [self.faults[17]])
        self.assertLess(len(self.runs), 20)
        self.assertEqual(len(self.runs), len(set(self.runs)))

    def test_a_run_that_fails_without_faults_gives_an_empty_schedule(self):
        self.assertEqual(self.shrink(), [])
        self.assertEqual(self.runs, [()])

    def test_if_all_are_needed_all_are_left(self):
        self.faults = self.faults[:6]
        self.assertEqual(self.shrink(*range(6)), self.faults)

    def test_an_intermittent_failure_gives_a_schedule_that_has_failed(self):
        generator, failed = random.Random(1), []

        def fails(part):
            if part and self.faults[4] in part and generator.random() < 0.5:
                failed.append(part)
                return True
            return False
        left = schedule.shrink(self.faults, fails)
        self.assertIn(left, [*failed, self.faults])
        self.assertIn(self.faults[4], left)


if __name__ == "__main__":
    unittest.main()
