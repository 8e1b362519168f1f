#!/usr/bin/env python3
"""Groups the source files of a folder that can be compiled together as one unity build file (used by cmake/unity.cmake).

    unity_groups.py MOST SOURCE...    prints one line "GROUP SOURCE" per grouped file; groups have 2 to MOST files

The files of a group parse their headers only once, which is most of the time to compile them. Two files are not grouped if
both define the same name in an anonymous namespace with different meanings. A file is compiled alone if it defines a macro,
or if it defines a name that a header of the folder also uses for a type or a constant. The code must be formatted with
clang-format, so that each declaration in a namespace starts in the first column.
"""

import functools
import os
import pathlib
import re
import sys

ALIAS = re.compile(r"(?:using|namespace)\s+(?:namespace\s+)?(?:[\w:]*::)?(\w+)\s*(?:=|;)")
TYPE = re.compile(r"(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)")

TEST = re.compile(r"(?:TEST(?:_[FP])?|TYPED_TEST(?:_P)?)\((\w+),\s*(\w+)\)")  # googletest names the class after both
INSTANCE = re.compile(r"(?:INSTANTIATE|REGISTER)_[A-Z_]+\((\w+),\s*(\w+)")
PLAIN_ENUM = re.compile(r"enum\s+(?!class|struct)")  # unscoped: its values are names in the namespace


def statements(text):
    """(own, declaration) for each declaration in a namespace, without bodies. own: it is in an anonymous namespace."""
    own, lines = False, iter(text.splitlines())
    for line in lines:
        if re.match(r"namespace\s*\{", line):
            own = True
        elif re.match(r"\}\s*// namespace$", line):
            own = False
        elif re.match(r"[A-Za-z_\[]", line) and not re.match(r"namespace [\w:]+ \{", line):
            whole = line
            end = "[;}]" if PLAIN_ENUM.match(line) else "[;{]"
            while not re.search(end, whole) and (more := next(lines, None)) is not None:
                whole += " " + more.strip()
            yield own, whole


def without_templates(text):
    """The text without template arguments, <...>."""
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


@functools.cache
def names_of_headers(folder):
    """The types and constants that the headers of a folder and its subfolders declare. A file may include any of them."""
    texts = (header.read_text(encoding="utf-8") for header in sorted(folder.rglob("*.h")))
    named = rf"^{TYPE.pattern}|^using (\w+) =|^(?:inline )?constexpr [^=({{;\n]*?\b(\w+)(?:\[|\s*=|\{{|;)"
    return {name for text in texts for found in re.findall(named, text, re.M) for name in found}


def names_of(path, folder):
    """({name in an anonymous namespace: its meaning}, names with external linkage), or (None, None) if the file must be compiled
    alone."""
    own, shared = {}, set()
    text = re.sub(r"//[^\n]*(?<!// namespace)$", "", path.read_text(encoding="utf-8"), flags=re.M)
    if re.search(r"^\s*#\s*(define|pragma)", text, re.M):
        return None, None
    for inside, declaration in statements(text):
        plain = re.sub(r"^(?:template\s*)?(?:\[\[\w+\]\]\s*)?", "", without_templates(declaration))
        if test := TEST.match(plain) or INSTANCE.match(plain):
            names, meaning = [f"{test[1]}_{test[2]}"], path
        elif alias := ALIAS.match(plain):
            names, meaning = [alias[1]], declaration
        elif PLAIN_ENUM.match(plain):
            names, meaning = re.findall(r"[A-Za-z_]\w*", plain), path
        elif kind := TYPE.match(plain):
            names, meaning = [kind[1]], path
        elif re.match(r"[^=(]*\(", plain):
            names, meaning = re.findall(r"(\w+)\s*\(", plain)[:1], path
        else:
            names, meaning = re.findall(r"\b([A-Za-z_]\w*)(?:\[[^\]]*\])*\s*(?:[=;{,]|$)", plain), path
        if inside or meaning is declaration:
            own.update((name, meaning) for name in names)
        else:
            shared.update(names)
    if names_of_headers(folder).intersection(name for name, meaning in own.items() if meaning is path):
        return None, None
    return own, shared


def apart(a, b):
    """Whether the names of two files collide."""
    return any(b[0].get(name, meaning) != meaning or name in b[1] for name, meaning in a[0].items()) or any(
        name in a[1] for name in b[0])


def main():
    most, files = int(sys.argv[1]), sys.argv[2:]
    folder = pathlib.Path(os.path.commonpath([pathlib.Path(file).parent for file in files])) if files else None
    named = [(file, names) for file in files if (names := names_of(pathlib.Path(file), folder))[0] is not None]
    # Start with the files that have most collisions and put each into the smallest group that fits, so that few stay alone.
    collisions = {file: sum(apart(names, other) for _, other in named) for file, names in named}
    named.sort(key=lambda one: -collisions[one[0]])
    groups = [[] for _ in range(-(-len(named) // most))]
    for file, names in named:
        fitting = [group for group in groups if len(group) < most and not any(apart(names, other) for _, other in group)]
        if not fitting:
            groups.append([])
            fitting = groups[-1:]
        min(fitting, key=len).append((file, names))
    for number, group in enumerate(group for group in groups if len(group) > 1):
        for file, _ in group:
            print(number, file)


if __name__ == "__main__":
    main()
