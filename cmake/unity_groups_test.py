#!/usr/bin/env python3
"""Tests cmake/unity_groups.py: files whose names collide are in different groups, and all others are grouped."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent / "unity_groups.py"


def own(text):
    return f"namespace kvick::x {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}  // namespace kvick::x\n"


class GroupsTest(unittest.TestCase):
    def groups(self, *texts, most=8, header=""):
        """The group number of each text; None: it is compiled alone."""
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / f"{i}.cc" for i in range(len(texts))]
            (pathlib.Path(folder) / "shared.h").write_text(header)
            for file, text in zip(files, texts):
                file.write_text(text)
            out = subprocess.run([sys.executable, SCRIPT, str(most), *files], check=True, capture_output=True, text=True).stdout
        found = {file: group for group, file in (line.split() for line in out.splitlines())}
        return [found.get(str(file)) for file in files]

    def apart(self, a, b):
        self.assertEqual(self.groups(a, b), [None, None])

    def together(self, a, b):
        self.assertEqual(self.groups(a, b), ["0", "0"])

    def test_other_names_go_together(self):
        self.together(own("constexpr int kA = 1;"), own("constexpr int kB = 1;"))
        self.together(own("void f() {\n  int same = 1;\n}"), own("void g() {\n  int same = 1;\n}"))

    def test_names_of_each_files_own_that_are_the_same_stay_apart(self):
        self.apart(own("constexpr uint32_t kA = 1, kB = 2;"), own("constexpr int kB[] = {1};"))
        self.apart(own("struct Row {\n  int a = 0;\n};"), own("struct Row {\n  int b = 0;\n};"))
        self.apart(own("std::map<int, int> rows_of(int a) {\n}"), own("base::Result<std::pair<int, int>> rows_of(\n    int a) {\n}"))
        self.apart(own("template <typename T>\nT half(T a) {\n}"), own("int half(int a) {\n}"))
        self.apart(own("enum class Kind { kA };"), own("class Kind {\n};"))
        self.apart(own("enum Kind : int {\n  kA,\n  kB,\n};"), own("constexpr int kB = 1;"))
        self.together(own("enum class Kind : int {\n  kA,\n  kB,\n};"), own("constexpr int kB = 1;"))

    def test_a_name_of_ones_own_stays_apart_from_anothers_function(self):
        self.apart(own("int size(int a) {\n}"), "namespace kvick::x {\n\nint size(int a) { return a; }\n\n}  // namespace kvick::x\n")

    def test_an_alias_may_be_given_twice_for_the_same(self):
        self.together(own("using Json = nlohmann::json;"), own("using Json = nlohmann::json;"))
        self.apart(own("using Json = nlohmann::json;"), own("using Json = nlohmann::ordered_json;"))
        self.apart(own("using base::fail;"), own("int fail(int a) {\n}"))

    def test_tests_go_together(self):
        self.together(own("TEST(Row, IsRead) {\n}\nTEST(Row, IsKept) {\n}"), own("TEST(Row, IsWritten) {\n}"))
        self.together(own("INSTANTIATE_TEST_SUITE_P(All, Row, Values(1));"), own("INSTANTIATE_TEST_SUITE_P(All, Page, Values(1));"))
        self.apart(own("class Row : public testing::Test {\n};\nTEST_F(Row, IsRead) {\n}"),
                   own("class Row : public testing::Test {\n};\nTEST_F(Row, IsWritten) {\n}"))

    def test_a_macro_is_not_passed_on(self):
        self.apart("#define A 1\n" + own("constexpr int kA = 1;"), own("constexpr int kB = 1;"))

    def test_a_type_of_a_header_that_only_others_include(self):
        header = "namespace kvick::x {\n\nclass Pace {\n};\n\n}  // namespace kvick::x\n"
        self.assertEqual(self.groups(own("struct Pace {\n};"), *(own(f"constexpr int k{i} = 1;") for i in (0, 1)), header=header),
                         [None, "0", "0"])

    def test_a_constant_of_a_header_that_only_others_include(self):
        header = "namespace kvick::x {\n\ninline constexpr uint32_t kGroup = 4;\n\n}  // namespace kvick::x\n"
        self.assertEqual(self.groups(own("constexpr int kGroup = 1;"), *(own(f"constexpr int k{i} = 1;") for i in (0, 1)), header=header),
                         [None, "0", "0"])

    def test_groups_have_no_more_files_than_said_and_about_as_many(self):
        groups = self.groups(*(own(f"constexpr int k{i} = 1;") for i in range(9)), most=4)
        self.assertEqual(sorted(groups.count(group) for group in set(groups)), [3, 3, 3])

    def test_files_that_collide_share_no_group_but_others_join_each(self):
        same = [own("constexpr int kOptions = 1;")] * 3
        groups = self.groups(*same, *(own(f"constexpr int k{i} = 1;") for i in range(3)))
        self.assertEqual(len(set(groups[:3])), 3)
        self.assertNotIn(None, groups)


if __name__ == "__main__":
    unittest.main()
