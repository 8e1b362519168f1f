#!/usr/bin/env python3
"""Runs tools/hardening on the built program, and on small programs that lack one hardening property each."""

import os
import pathlib
import platform
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = """
#include <cstdio>
#include <cstring>
int main(int count, char** words) { char text[64]; std::strcpy(text, words[0]); std::puts(text); return count; }
"""
X86 = platform.machine() in ("x86_64", "AMD64")
HARDENED = {"pie": "-fPIE -pie", "relro": "-Wl,-z,relro", "now": "-Wl,-z,now", "stack": "-Wl,-z,noexecstack",
            "canaries": "-fstack-protector-strong", "copies": "-D_FORTIFY_SOURCE=2"}
WITHOUT = {"pie": "-fno-pie -no-pie", "relro": "-Wl,-z,norelro", "now": "-Wl,-z,lazy", "stack": "-Wl,-z,execstack",
           "canaries": "-fno-stack-protector", "copies": ""}
WORDS = {"pie": "-pie", "relro": "-z relro", "now": "-z now", "stack": "-z noexecstack", "canaries": "-fstack-protector-strong",
         "copies": "-D_FORTIFY_SOURCE"}
if X86:
    HARDENED |= {"shadow": "-Wl,-z,shstk"}
    WITHOUT |= {"shadow": ""}
    WORDS |= {"shadow": "-z shstk"}


def hardening(*paths):
    done = subprocess.run([ROOT / "tools" / "hardening", *paths], capture_output=True, text=True)
    return done.returncode, done.stdout


class Hardening(unittest.TestCase):
    def test_the_program_is_hardened(self):
        self.assertEqual(hardening(os.environ["KVICK"], *os.environ["ARCHIVES"].split(":")), (0, "hardened\n"))

    def compiled(self, folder, flags, name="program", *more):
        source = pathlib.Path(folder) / "program.cc"
        source.write_text(SOURCE)
        command = [os.environ["CXX"], "-O2", "-U_FORTIFY_SOURCE", "-fcf-protection=none" if X86 else "-O2", *" ".join(flags).split(), *more,
                   "-o", str(source.parent / name), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        return source.parent / name

    def test_exactly_the_missing_property_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(hardening(self.compiled(folder, HARDENED.values())), (0, "hardened\n"))
            for lacking in HARDENED:
                flags = [(WITHOUT if name == lacking else HARDENED)[name] for name in HARDENED]
                status, words = hardening(self.compiled(folder, flags))
                self.assertEqual((status, words.count("\n")), (1, 1), words)
                self.assertIn(WORDS[lacking], words)

    @unittest.skipUnless(X86, "branch targets are checked on x86 only")
    def test_an_object_without_branch_markers_is_found_in_its_archive(self):
        with tempfile.TemporaryDirectory() as folder:
            program = self.compiled(folder, HARDENED.values())
            for flag, status in ("-fcf-protection=full", 0), ("-fcf-protection=none", 1):
                piece = self.compiled(folder, (), "piece.o", "-c", flag)
                archive = pathlib.Path(folder) / "all.a"
                archive.unlink(missing_ok=True)
                subprocess.run(["ar", "rc", archive, piece], check=True)
                found, words = hardening(program, archive)
                self.assertEqual(found, status, words)
                self.assertEqual("piece.o" in words, status == 1, words)


if __name__ == "__main__":
    unittest.main()
