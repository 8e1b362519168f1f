#!/usr/bin/env python3
"""Tests tools/glibc_needs, tools/sbom, tools/docs_site.py and scripts/wheel on small inputs, and checks that the files of packaging/
agree with the code."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tool(name):
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


SYMBOLS = """
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) dlopen
0000000000000000      DF *UND*\t0000000000000000  GLIBC_2.34  __libc_start_main
0000000000000000      DF *UND*\t0000000000000000 (GLIBCXX_3.4.30) _ZSt4x
0000000000001000 g    DF .text\t0000000000000010 (GLIBC_2.40) its_own
0000000000000000  w   D  *UND*\t0000000000000000  Base        __gmon_start__
"""


class GlibcNeeds(unittest.TestCase):
    def test_the_newest_version_is_that_of_undefined_glibc_symbols(self):
        self.assertEqual(tool("glibc_needs").needs_of(SYMBOLS), ("2.34", ["__libc_start_main", "dlopen"]))
        self.assertEqual(tool("glibc_needs").needs_of(""), ("", []))

    def test_versions_are_compared_as_numbers(self):
        needed = "x *UND*\t0 (GLIBC_2.4) a\nx *UND*\t0 (GLIBC_2.31) b"
        self.assertEqual(tool("glibc_needs").needs_of(needed)[0], "2.31")

    def test_a_program_newer_than_the_limit_fails(self):
        program = os.path.realpath("/bin/sh")
        for limit, status in ("1.0", 1), ("99.0", 0):
            done = subprocess.run([ROOT / "tools" / "glibc_needs", "--limit", limit, program], capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done)
            self.assertEqual("newer than" in done.stdout, status == 1)


class Sbom(unittest.TestCase):
    def of(self, packages):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "packages.txt"
            file.write_text(packages)
            done = subprocess.run([ROOT / "tools" / "sbom", "--version", "1.2.3", "--packages", file, "--program", "/bin/sh"],
                                  capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
            return json.loads(done.stdout)

    def test_it_lists_the_packages_of_the_build_and_of_the_program(self):
        bill = self.of("# a comment\nbuild ca-certificates\ntest g++\n")
        self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["version"]), ("CycloneDX", "1.2.3"))
        scopes = {part["name"]: part["scope"] for part in bill["components"]}
        self.assertEqual(scopes.get("ca-certificates"), "excluded")
        self.assertEqual(scopes.get("libc6"), "required")
        self.assertNotIn("g++", scopes)
        required = [part["bom-ref"] for part in bill["components"] if part["scope"] == "required"]
        self.assertEqual(bill["dependencies"], [{"ref": "kvick", "dependsOn": required}])

    def test_a_package_that_is_not_installed_is_left_out(self):
        self.assertEqual([part["name"] for part in self.of("build no-such-package\n")["components"] if "no-such" in part["name"]], [])


class DocsSite(unittest.TestCase):
    def pages_in(self, nav):
        for entry in nav:
            for below in entry.values():
                yield from [below] if isinstance(below, str) else self.pages_in(below)

    def site(self):
        spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def test_each_page_is_in_the_navigation_once(self):
        pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
        self.assertEqual(sorted(self.pages_in(self.site().navigation(ROOT / "docs"))), pages)

    def test_links_outside_the_site_become_words(self):
        def of(text):
            return self.site().without_outside_links(text, ROOT / "docs" / "tour.md", ROOT / "docs")
        self.assertEqual(of("see [the list](../README.md) and [scale](scale.md#top)"), "see the list and [scale](scale.md#top)")
        self.assertEqual(of("[folder](adr/)"), "folder")
        for same in "[gone](../nowhere.md)", "[web](https://example.org/a)", "[here](#top)", "```\n[x](../README.md)\n```\n":
            self.assertEqual(of(same), same)


class Files(unittest.TestCase):
    def text(self, name):
        return (ROOT / name).read_text(encoding="utf-8")

    def test_the_version_is_the_same_everywhere(self):
        version = re.search(r"project\(kvick VERSION ([0-9.]+)", self.text("CMakeLists.txt"))[1]
        self.assertEqual(json.loads(self.text("src/server/api/openapi.json"))["info"]["version"], version)
        self.assertIn(f"\n## [{version}]", self.text("CHANGELOG.md"))
        self.assertIn(f"\nversion: {version}\n", self.text("CITATION.cff"))
        for name in "packaging/compose.yaml", "packaging/kubernetes/deployment.yaml":
            self.assertEqual(set(re.findall(r"image: kvick:(\S+)", self.text(name))), {version}, name)

    def test_health_checks_use_the_program_or_its_route(self):
        self.assertIn('CMD ["/usr/bin/kvick", "health"]', self.text("Dockerfile"))
        self.assertIn('"/usr/bin/kvick", "health"]', self.text("packaging/compose.yaml"))
        deployment = self.text("packaging/kubernetes/deployment.yaml")
        for probe in "startupProbe", "readinessProbe", "livenessProbe":
            self.assertRegex(deployment, rf"{probe}:\n\s+httpGet: {{path: /health, port: http}}\n")

    def test_yaml_can_be_parsed(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        for path in (ROOT / "packaging").rglob("*.yaml"):
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                self.assertIsInstance(document, dict, path)

    def metrics(self):
        """The names of all metrics, with the parts of histograms (_bucket, _sum, _count), and all label values in the code."""
        code = self.text("src/server/ops/metrics_text.cc")
        names = {f"kvick_{name}" for name in re.findall(r'text\.(?:head|counter|gauge)\(\s*"(\w+)"', code)}
        for name in re.findall(r'text\.histogram\(\s*"(\w+)"', code):
            names |= {f"kvick_{name}_{part}" for part in ("bucket", "sum", "count")}
        return names, set(re.findall(r'\{"(\w+)", ', code)) | set(re.findall(r'=\\"(\w+)\\"', code))

    def assert_metrics_exist(self, expressions, place):
        names, values = self.metrics()
        self.assertTrue(expressions, place)
        for expression in expressions:
            used = re.findall(r"\bkvick_\w+", expression)
            self.assertEqual(set(used) - names, set(), f"{place}: {expression}")
            written = set(re.findall(r'\b(?:state|end|how|what|event|why|direction)="(\w+)"', expression))
            self.assertEqual(written - values, set(), f"{place}: {expression}")

    def test_the_dashboard_uses_existing_metrics(self):
        board = json.loads(self.text("packaging/grafana/kvick.json"))
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for panel in panels:
            self.assert_metrics_exist([target["expr"] for target in panel["targets"]], panel["title"])
        lists = [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
        self.assert_metrics_exist(lists, "templating")

    def test_alerts_use_existing_metrics(self):
        text = self.text("packaging/prometheus/alerts.yaml")
        expressions = re.findall(r"(?m)^ +expr: (.*)$", text)
        self.assertEqual(len(expressions), len(re.findall(r"(?m)^ +- alert: ", text)))
        self.assert_metrics_exist(expressions, "alerts.yaml")
        self.assert_metrics_exist(re.findall(r"(?m)^ +description: (.*)$", text), "alerts.yaml")

    def test_package_scripts_are_valid_sh(self):
        for name in "postinst", "prerm", "postrm":
            path = ROOT / "packaging" / "debian" / name
            subprocess.run(["sh", "-n", path], check=True)
            self.assertTrue(os.access(path, os.X_OK), path)

    def test_the_image_has_all_its_sources_and_runs_without_root_or_shell(self):
        build, image = re.split(r"\nFROM gcr.io/distroless/base-debian12:nonroot\n", self.text("Dockerfile"))
        self.assertIn("--target kvick kvick_share ", build)
        self.assertNotRegex(image, r"(?m)^(RUN|USER)")
        let_in = re.findall(r"(?m)^!(\S+)", self.text(".dockerignore"))
        for name in re.findall(r"\$\{PROJECT_SOURCE_DIR\}/([\w.-]+)", self.text("cmake/packaging.cmake")):
            self.assertIn(name, let_in)


class Wheel(unittest.TestCase):
    def run_script(self, **environment):
        return subprocess.run([ROOT / "scripts" / "wheel"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                              env={**os.environ, **environment})

    def test_a_missing_python_is_reported_before_anything_is_built(self):
        done = self.run_script(PYTHONS="no-such-python python3")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertEqual(done.stderr.splitlines()[-1], "wheel: there is no no-such-python")

    def test_a_python_without_headers_gets_a_hint_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text(f"#!/bin/sh\necho {folder}/include\n")
            python.chmod(0o755)
            done = self.run_script(PYTHON=str(python))
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertRegex(done.stderr, r"^wheel: \S+ has no headers in \S+; on Debian: apt-get install python3-dev\n$")

    def test_all_pythons_share_one_build_folder(self):
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        self.assertEqual(re.search(r'(?m)^build-dir = "([^"]+)"', project)[1], "build/wheel")
        self.assertIn("out=$PWD/build/wheel ", (ROOT / "scripts" / "wheel").read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
