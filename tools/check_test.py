#!/usr/bin/env python3
"""Tests the checks of the tree (check_floors, check_tree, check_instructions, count_tests) on small trees with one fault each."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent


class CheckTest(unittest.TestCase):
    def findings(self, tool, **files):
        """Runs the tool on a tree of these files (name -> text) and returns the lines that it prints. In a name, __ means / and _dot_
        means a dot."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name.replace("__", "/").replace("_dot_", ".")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, TOOLS / tool, root], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            lines = done.stdout.splitlines()
            self.assertEqual(done.returncode, 1 if lines else 0)
            return lines


class Floors(CheckTest):
    def of(self, include, place="src__kv__stores__a_dot_cc"):
        return self.findings("check_floors", **{place: f"// a file\n{include}\n"})

    def test_a_lower_floor_may_be_included(self):
        for include in '#include "base/check.h"', '#include "kernels/attention/view.h"', '#include "kv/contract/kv.h"', '#include <vector>', \
                '#include <sys/mman.h>', '#include "kvick/kvick.h"', '// #include "engine/core/engine.h"', '':
            self.assertEqual(self.of(include), [])

    def test_including_a_higher_floor_is_reported_with_its_line(self):
        self.assertEqual(self.of('#include "engine/core/engine.h"'),
                         ["src/kv/stores/a.cc:2: kv/ must not include engine/, which is on a higher floor"])
        self.assertEqual(len(self.of('  #  include <model/core/model.h>')), 1)
        self.assertEqual(len(self.of('#include "base/x.h"\n#include "cli/x.h"', place="src__engine__core__a_dot_h")), 1)

    def test_including_the_same_floor_is_reported(self):
        self.assertEqual(self.of('#include "text/tokenizer/tokenizer.h"'),
                         ["src/kv/stores/a.cc:2: kv/ must not include text/, which is on the same floor"])

    def test_rooms_may_include_lower_rooms_only(self):
        self.assertEqual(self.of('#include "kv/stores/b.h"\n#include "kv/prefix/b.h"'), [])
        self.assertEqual(self.of('#include "kv/select/policy.h"'),
                         ["src/kv/stores/a.cc:2: kv/stores/ must not include kv/select/, which is on a higher floor"])
        self.assertEqual(self.of('#include "kv/tier/tier.h"'),
                         ["src/kv/stores/a.cc:2: kv/stores/ must not include kv/tier/, which is on the same floor"])
        self.assertEqual(self.of('#include "engine/serving/scheduler.h"', place="src__server__net__a_dot_cc"), [])

    def test_tests_may_include_all_rooms_of_their_folder_but_no_higher_floor(self):
        for place in "stores__a_test_dot_cc", "stores__test_a_dot_h", "stores__fuzz_a_dot_cc", "stores__a_bench_dot_cc", "testing__a_dot_h", \
                "conformance__a_dot_h":
            self.assertEqual(self.of('#include "kv/select/policy.h"\n#include "kv/testing/b.h"', place=f"src__kv__{place}"), [])
            self.assertEqual(len(self.of('#include "engine/core/engine.h"', place=f"src__kv__{place}")), 1)

    def test_only_tests_may_include_headers_of_tests(self):
        self.assertEqual(self.of('#include "kv/testing/b.h"'), ["src/kv/stores/a.cc:2: kv/testing/b.h is a header for tests"])
        self.assertEqual(self.of('#include "kv/stores/test_b.h"'), ["src/kv/stores/a.cc:2: kv/stores/test_b.h is a header for tests"])
        self.assertEqual(len(self.of('#include "model/core/test_model.h"', place="src__engine__core__a_dot_cc")), 1)

    def test_a_folder_or_room_without_a_floor_is_reported(self):
        self.assertEqual(len(self.of("", place="src__misc__a_dot_cc")), 1)
        self.assertEqual(len(self.of("", place="src__a_dot_cc")), 1)
        self.assertIn("kv/ has rooms", self.of("", place="src__kv__a_dot_cc")[0])
        self.assertIn("kv/ has rooms", self.of("", place="src__kv__stores__deep__a_dot_cc")[0])
        self.assertIn("kv/odds has no floor", self.of("", place="src__kv__odds__a_dot_cc")[0])
        self.assertEqual(self.of("", place="src__base__a_dot_cc"), [])

    def test_an_exception_is_for_one_include_and_must_be_used(self):
        table = "src__kernels__table__table_x86_dot_cc"
        self.assertEqual(self.of('#include "kernels/probe/probe.h"', place=table), [])
        self.assertEqual(len(self.of('#include "kernels/probe/probe.h"', place="src__kernels__table__a_dot_cc")), 1)
        self.assertIn("remove its entry", self.of("", place=table)[0])

    def test_files_outside_src_may_include_everything(self):
        self.assertEqual(self.of('#include "cli/x.h"', place="tests__a_dot_cc"), [])

    def test_the_real_tree_passes(self):
        self.assertEqual(subprocess.run([sys.executable, TOOLS / "check_floors"]).returncode, 0)


class Tree(CheckTest):
    def of(self, **files):
        return self.findings("check_tree", **files)

    def test_the_length_of_files_is_limited(self):
        for name, limit in ("src__kv__a_dot_h", 150), ("src__kv__a_dot_cc", 400), ("src__kernels__a_dot_cc", 600):
            lines = ["#pragma once"] + ["int x;"] * (limit - 1)
            self.assertEqual(self.of(**{name: "\n".join(lines)}), [])
            lines.append("int x;")
            self.assertIn(f"the limit is {limit};", self.of(**{name: "\n".join(lines)})[0])
            lines[1] = "// Larger than most: one table."
            self.assertEqual(self.of(**{name: "\n".join(lines)}), [])

    def test_the_number_of_files_in_a_folder_is_limited(self):
        files = {f"src__kv__stores__a{i}_dot_cc": "" for i in range(30)}
        self.assertEqual(self.of(**files, src__kv__stores__deep__a_dot_cc=""), [])
        self.assertEqual(self.of(**files, src__kv__stores__CMakeLists_dot_txt=""),
                         ["src/kv/stores: 31 files, but the limit is 30; move files that belong together into a subfolder"])
        self.assertEqual(self.of(**{f"docs__a{i}": "" for i in range(31)}), [])

    def test_headers_begin_with_pragma_once(self):
        self.assertEqual(self.of(src__kv__a_dot_h="// what it is for\n#pragma once\n"), [])
        self.assertEqual(len(self.of(src__kv__a_dot_h="#ifndef A\n#endif\n")), 1)
        self.assertEqual(len(self.of(src__kv__a_dot_h="")), 1)

    def test_no_using_namespace(self):
        self.assertEqual(self.of(src__kv__a_dot_cc="int x;\n  using namespace std;\n"), ["src/kv/a.cc:2: `using namespace` is not allowed"])
        self.assertEqual(self.of(src__kv__a_dot_cc="namespace fs = std::filesystem;  // not using namespace\n"), [])

    def tour(self, text):
        return self.of(docs__tour_dot_md=text, src__kv__kv_dot_h="#pragma once\nstruct Step { void commit(); };\n",
                       src__kv__other_dot_h="#pragma once\nvoid elsewhere();\n")

    def test_names_in_the_tour_must_exist(self):
        self.assertEqual(self.tour("1. `src/kv/kv.h`: `Step::commit`, `commit()`\n2. in `src/kv`, `elsewhere`, `int x`\n"), [])
        self.assertEqual(self.tour("one\n\n1. `src/kv/gone.h`\n"), ["docs/tour.md:3: there is no src/kv/gone.h"])
        self.assertEqual(self.tour("`src/kv/kv.h` and\nits `rollback()`"),
                         ["docs/tour.md:1: rollback() is in none of the files that this paragraph names"])
        self.assertEqual(len(self.tour("1. `src/kv/kv.h`\n   `elsewhere()`\n2. `src/kv/other.h` `elsewhere()`\n3. `src/kv/kv.h` `elsewhere()`\n")), 1)

    def test_a_missing_function_is_reported_also_without_parentheses(self):
        self.assertEqual(len(self.tour("`src/kv/kv.h` `rollback`, `Step::rollback`")), 2)

    def promises(self, cell):
        return self.of(docs__promises_dot_md=f"| what | tests |\n|---|---|\n| a file | {cell} |\n",
                       src__kv__a_test_dot_cc="TEST(Files, AreWhole) {}\nTEST_P(\n    Store, Holds) {}\n",
                       tests__cli__b_test_dot_py="class A:\n    def test_one(self):\n", src__kv__CMakeLists_dot_txt="kvick_fuzzer(fuzz_a a.cc)\n")

    def test_tests_in_the_promises_must_exist(self):
        self.assertEqual(self.promises("`Files.AreWhole`, `test_one`, `fuzz_a`"), [])
        self.assertEqual(self.promises("`Store.Holds`"), [])
        self.assertEqual(self.promises("not tested"), [])
        self.assertEqual(self.promises("`Files.AreGone`, `test_one`"), ["docs/promises.md:3: there is no test Files.AreGone"])
        self.assertEqual(self.promises("`test_two`"), ["docs/promises.md:3: there is no test test_two"])
        self.assertEqual(self.promises("some"), ["docs/promises.md:3: the last cell names no test; write one, or 'not tested'"])

    def test_broken_links_are_reported(self):
        self.assertEqual(self.of(README_dot_md="[a](docs/a.md#x) [b](https://example.org/b)", docs__a_dot_md="# X\n[r](../README.md)"), [])
        self.assertEqual(self.of(README_dot_md="\n[a](docs/a.md)"), ["README.md:2: broken link: docs/a.md"])
        self.assertEqual(self.of(docs__guides__a_dot_md="[a](b.md) and [c](../c.md)"),
                         ["docs/guides/a.md:1: broken link: b.md", "docs/guides/a.md:1: broken link: ../c.md"])
        self.assertEqual(self.of(README_dot_md='<img src="docs/a.svg" alt="a">'), ["README.md:1: broken link: docs/a.svg"])

    def test_links_to_missing_headings_are_reported(self):
        page = "# One page\n\n## `--kv-tier`: where [rows](a.md) are\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"
        for anchor in "one-page", "--kv-tier-where-rows-are", "twice", "twice-1":
            self.assertEqual(self.of(README_dot_md=f"[a](docs/a.md#{anchor})", docs__a_dot_md=page), [], anchor)
        for anchor in "page", "no-heading", "twice-2":
            self.assertEqual(self.of(README_dot_md=f"[a](docs/a.md#{anchor})", docs__a_dot_md=page),
                             [f"README.md:1: the linked page has no such heading: docs/a.md#{anchor}"])
        self.assertEqual(self.of(README_dot_md="# A\n[a](#b)"), ["README.md:2: the linked page has no such heading: #b"])

    def test_code_blocks_have_no_links(self):
        self.assertEqual(self.of(README_dot_md="```\nlayers[0](x)\n```\n"), [])

    def test_the_length_of_the_readme_is_limited(self):
        self.assertEqual(self.of(README_dot_md="a\n" * 120), [])
        self.assertEqual(self.of(README_dot_md="a\n" * 121),
                         ["README.md:121: 121 lines, but the limit is 120; move details to docs/guides or docs/reference"])

    def test_each_strategy_and_policy_has_a_row(self):
        code = {"src__kv__a_dot_cc": 'Strategy a_strategy() {\n  return {.name = "a",\n          .options = {}};\n}\n',
                "src__kv__select__b_dot_cc": 'Policy b_policy() {\n  return {\n      .name = "b",\n  };\n}\n'}
        self.assertEqual(self.of(docs__reference__strategies_dot_md="| `a` | one |\n| `b` (late) | two |\n", **code), [])
        self.assertEqual(self.of(docs__reference__strategies_dot_md="| `a` | one |\n`b`\n", **code),
                         ["docs/reference/strategies.md:1: b from src/kv/select/b.cc is missing"])
        self.assertEqual(len(self.of(**code)), 2)

    def test_the_reference_must_name_what_the_code_has(self):
        cases = (("command-line", "src__cli__commands__a_dot_cc", 'app.add_option("-p,--prompt", x);\napp\n  .add_flag(\n"--raw", y);', "`--prompt`", "`--raw`"),
                 ("metrics", "src__server__ops__metrics_text_dot_cc", 'text.head("jobs", "gauge");\ntext.gauge(\n"bytes", 1);', "`kvick_jobs`", "`kvick_bytes`"),
                 ("http-api", "src__server__api__routes_dot_cc", '{.name = {"GET", "/kv"}},\n{.name = {"POST", "/v1/x/{id}"}},', "`GET /kv`", "`POST /v1/x/{id}`"),
                 ("environment", "src__cli__a_dot_cc", 'getenv("HOME");\nenvironment("HF_TOKEN");', "`HOME`", "`HF_TOKEN`"))
        for page, place, code, one, other in cases:
            place = {place: code + "\n"}
            self.assertEqual(self.of(**place, **{f"docs__reference__{page}_dot_md": f"{one}, {other}\n"}), [])
            self.assertEqual(len(self.of(**place, **{f"docs__reference__{page}_dot_md": f"{one}\n"})), 1, page)
            self.assertEqual(len(self.of(**place)), 2, page)
        self.assertEqual(self.of(src__cli__a_test_dot_cc='getenv("KVICK_TEST_MODEL");\n'), [])

    def test_decisions_have_unique_numbers(self):
        index = "[one](0001-one.md) [two](0002-two.md)"
        self.assertEqual(self.of(docs__adr__README_dot_md=index, **{"docs__adr__0001-one_dot_md": "# 1. One\n", "docs__adr__0002-two_dot_md": "# 2. Two\n"}), [])
        self.assertEqual(self.of(docs__adr__README_dot_md=index, **{"docs__adr__0001-one_dot_md": "# 1. One\n", "docs__adr__0002-two_dot_md": "# 1. Two\n"}),
                         ["docs/adr/0002-two.md:1: the heading does not begin with '# 2. '"])
        self.assertEqual(self.of(docs__adr__README_dot_md="[one](0001-one.md) [two](0001-two.md)",
                                 **{"docs__adr__0001-one_dot_md": "# 1. One\n", "docs__adr__0001-two_dot_md": "# 1. Two\n"}),
                         ["docs/adr/0001-two.md:1: 0001-one.md already has the number 1; use the next free one"])
        self.assertEqual(self.of(**{"docs__adr__0001-one_dot_md": "# 1. One\n"}), ["docs/adr/README.md:1: 0001-one.md is not listed"])

    def test_the_real_tree_passes(self):
        self.assertEqual(subprocess.run([sys.executable, TOOLS / "check_tree"]).returncode, 0)


class Instructions(unittest.TestCase):
    ABOVE = {"vpdpbusd %zmm1, %zmm2, %zmm3": "vnni", "vpdpwssd %ymm1, %ymm2, %ymm3": "vnni",
             "vcvtneps2bf16 %zmm1, %ymm2": "bf16", "vdpbf16ps %zmm1, %zmm2, %zmm3": "bf16",
             "vpermb %zmm1, %zmm2, %zmm3": "amx", "tdpbssd %tmm0, %tmm1, %tmm2": "amx",
             "vpmaddubsw %zmm1, %zmm2, %zmm3": "avx512", "vpternlogd $1, %xmm1, %xmm2, %xmm3": "avx512",
             "vfmadd231ps %ymm1, %ymm2, %ymm3": "avx2", "vmovups (%rax), %ymm1": "avx2"}
    SETS = ["scalar", "avx2", "avx512", "vnni", "bf16", "amx"]

    ARM_ABOVE = {"sdot v0.4s, v1.16b, v2.16b": "neon", "usmmla v0.4s, v1.16b, v2.16b": "i8mm",
                 "usdot v0.4s, v1.16b, v2.16b": "i8mm"}
    ARM_SETS = ["scalar", "neon", "i8mm"]

    def of(self, tools="", machine="--x86", assembler=(), **files):
        """The lines that check_instructions prints for an archive of these object files (instruction set in the name -> assembly code)."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                subprocess.run([tools + "as", *assembler, "-o", root / f"rows_{name}.cc.o", "-"], input=f"f:\n{text}\nret\n", text=True, check=True)
            archive = root / "libkernels.a"
            subprocess.run(["ar", "rc", archive, *sorted(root.glob("*.o"))], check=True)
            done = subprocess.run([sys.executable, TOOLS / "check_instructions", machine, archive], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            lines = done.stdout.splitlines()
            self.assertEqual(done.returncode, 1 if lines else 0)
            return lines

    def test_an_instruction_is_reported_only_in_files_of_weaker_sets(self):
        for text, needs in self.ABOVE.items():
            found = self.of(**{name: text for name in self.SETS})
            weaker = self.SETS[:self.SETS.index(needs)]
            self.assertEqual(sorted(line.split(" in ")[0] for line in found), sorted(f"rows_{n}.cc.o" for n in weaker), text)

    def test_avx_vnni_is_not_part_of_avx512(self):
        text = "{vex} vpdpbusd %ymm1, %ymm2, %ymm3"
        found = self.of(avxvnni=text, **{name: text for name in self.SETS})
        self.assertEqual(sorted(line.split(" in ")[0] for line in found), sorted(f"rows_{n}.cc.o" for n in self.SETS))

    @unittest.skipUnless(shutil.which("aarch64-linux-gnu-as"), "there is no assembler for AArch64")
    def test_an_arm_instruction_is_reported_only_in_files_of_weaker_sets(self):
        for text, needs in self.ARM_ABOVE.items():
            found = self.of("aarch64-linux-gnu-", "--arm", ["-march=armv8.2-a+dotprod+i8mm"],
                            **{name: f"b.ne f\nadd x0, x1, #1\n{text}" for name in self.ARM_SETS})
            weaker = self.ARM_SETS[:self.ARM_SETS.index(needs)]
            self.assertEqual(sorted(line.split(" in ")[0] for line in found), sorted(f"rows_{n}.cc.o" for n in weaker), text)

    def test_the_message_names_the_function(self):
        self.assertIn("rows_avx512.cc.o in f: vpdpbusd", self.of(avx512="vpdpbusd %zmm1, %zmm2, %zmm3")[0])

    def test_baseline_instructions_are_allowed_everywhere(self):
        self.assertEqual(self.of(scalar="push %rbx\nbsf %eax, %edx\nmulps %xmm1, %xmm2\njmp f\ncall g", avx2=""), [])

    def test_an_archive_without_kernels_is_an_error(self):
        with self.assertRaises(AssertionError):
            self.of(scalar="nop")


class CountTests(unittest.TestCase):
    def of(self, *cases):
        text = "<testsuite>" + "".join(
            f'<testcase name="t" status="{status}">{inner}<system-out>{output}</system-out></testcase>'
            for status, inner, output in cases) + "</testsuite>"
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as junit:
            junit.write(text)
            junit.flush()
            done = subprocess.run([sys.executable, TOOLS / "count_tests", junit.name], capture_output=True, text=True)
        return done.stdout.strip()

    def test_each_googletest_test_is_counted(self):
        self.assertEqual(self.of(("run", "", "[  PASSED  ] 5 tests.\n[  SKIPPED ] 2 tests, listed below:\n")), "5 0 2")
        self.assertEqual(self.of(("fail", "<failure/>", "[  PASSED  ] 5 tests.\n[  FAILED  ] 1 test, listed below:\n")), "5 1 0")

    def test_each_unittest_test_is_counted(self):
        self.assertEqual(self.of(("run", "", "Ran 5 tests in 1s\n\nOK (skipped=1)\n")), "4 0 1")
        self.assertEqual(self.of(("fail", "<failure/>", "Ran 5 tests in 1s\n\nFAILED (failures=1, errors=1, skipped=1)\n")), "2 2 1")

    def test_any_other_program_counts_as_one_test(self):
        self.assertEqual(self.of(("run", "", "fine"), ("fail", "<failure/>", ""), ("notrun", "<skipped/>", "")), "1 1 1")

    def test_a_crash_counts_as_one_failed_test(self):
        self.assertEqual(self.of(("fail", "<failure/>", "[ RUN      ] A.b\nSegmentation fault\n")), "0 1 0")
        self.assertEqual(self.of(("fail", "<failure/>", "[  PASSED  ] 5 tests.\nAddressSanitizer: leak\n")), "5 1 0")


if __name__ == "__main__":
    unittest.main(verbosity=1)
