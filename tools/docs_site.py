"""MkDocs hook for mkdocs.yml: builds the navigation from the folders of docs/, and removes links to files outside the site.

Guides, results and papers are in the order given below; pages that are not listed follow, sorted by name. All other pages are
sorted by name. The title of a page is its first heading.
"""

import pathlib
import re

GUIDES = ("install-and-run", "serving", "page", "choosing-a-cache", "planning-memory", "quantizing", "comparing", "python", "library", "own-strategy",
          "predictors", "training-models", "shared-store", "troubleshooting")
RESULTS = ("machines", "engines", "zen4", "models", "mixtures", "strategies", "quality", "quantize", "training", "servers", "speculation",
           "ranks", "replicas", "arm")
PAPERS = ("bmc", "vllm", "maple", "bct", "htp")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def slug(text, separator):
    """The anchor of a heading as GitHub generates it, because links in docs/ use GitHub's anchors."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def title_of(page):
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return re.sub(r"[`*]", "", line[2:].strip())
    return page.stem


def pages_of(docs, folder, first=()):
    """{title: path} for each page of a folder: README first, then the pages in `first`, then the others by name."""
    order = ("README", *first)

    def place(page):
        return (order.index(page.stem) if page.stem in order else len(order), page.relative_to(docs).as_posix())

    return [{title_of(page): page.relative_to(docs).as_posix()} for page in sorted((docs / folder).rglob("*.md"), key=place)]


def navigation(docs):
    """The navigation, in which each page of docs/ occurs once."""
    known = ("guides", "reference", "results", "papers", "adr")
    nav = [{"kvick": "index.md"}, {"Guides": [*pages_of(docs, "guides", GUIDES), {title_of(docs / "scale.md"): "scale.md"},
                                               {title_of(docs / "promises.md"): "promises.md"}]},
           {"Reference": pages_of(docs, "reference")},
           {"Internals": [{title_of(docs / "tour.md"): "tour.md"}, {"Decisions": pages_of(docs, "adr")}]},
           {"Results": [*pages_of(docs, "results", RESULTS), {title_of(docs / "report.md"): "report.md"}, {"Papers": pages_of(docs, "papers", PAPERS)}]}]
    # Pages and folders that are not listed above.
    others = [page for page in sorted(docs.glob("*.md")) if page.name not in ("index.md", "promises.md", "scale.md", "tour.md", "report.md")]
    nav += [{title_of(page): page.name} for page in others]
    for folder in sorted(path for path in docs.iterdir() if path.is_dir() and path.name not in known):
        if pages := pages_of(docs, folder.name):
            nav.append({folder.name.capitalize(): pages})
    return nav


def on_config(config):
    config["nav"] = navigation(pathlib.Path(config["docs_dir"]))
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def without_outside_links(text, page, docs):
    """The text, in which links to files outside the site are replaced by their words. A link to a missing file stays, so that
    MkDocs reports it."""

    def replaced(match):
        target = match[2].partition("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = (page.parent / target).resolve()
        inside = path.is_relative_to(docs) and not path.is_dir()
        if inside or not path.exists():
            return match[0]
        return match[1]

    # The parts with odd index are code blocks.
    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else LINK.sub(replaced, part) for i, part in enumerate(parts))


def on_page_markdown(markdown, page, config, **_):
    return without_outside_links(markdown, pathlib.Path(page.file.abs_src_path), pathlib.Path(config["docs_dir"]).resolve())
