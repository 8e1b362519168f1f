#!/usr/bin/python3
"""Runs a command with the system call filter of packaging/kvick.service, as systemd would. Needs Debian's python3-seccomp.

    cage.py UNIT COMMAND...

It applies the unit's SystemCallFilter, SystemCallErrorNumber, MemoryDenyWriteExecute, RestrictAddressFamilies and NoNewPrivileges.
It runs with Debian's own Python, for which the module is built.
"""

import os
import re
import socket
import subprocess
import sys

PROT_WRITE, PROT_EXEC = 2, 4


def settings(unit):
    """The unit's settings by name; of repeated ones the last."""
    with open(unit, encoding="utf-8") as file:
        return dict(re.findall(r"^(\w+)=(.*)$", file.read(), re.MULTILINE))


def calls_of(name):
    """The names of the system calls in a set such as @system-service, including nested sets."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}).stdout
    words = [line.strip() for line in text.splitlines()[1:]]
    return set().union(*(calls_of(word) for word in words if word and not word.startswith("#")))


def filter_of(unit):
    import errno  # SystemCallErrorNumber is one of its names
    import seccomp  # sandbox_test.py uses the functions above without it
    rules = settings(unit)
    refuse = seccomp.ERRNO(getattr(errno, rules["SystemCallErrorNumber"]))
    cage = seccomp.SyscallFilter(refuse)
    for name in set().union(*(calls_of(name) for name in rules["SystemCallFilter"].split())) - {"mmap", "mprotect", "pkey_mprotect", "socket"}:
        try:
            cage.add_rule(seccomp.ALLOW, name)
        except RuntimeError:
            pass  # a system call that this architecture does not have
    assert rules["MemoryDenyWriteExecute"] == "yes"
    for protection in range(8):  # mmap's third argument has no other bits
        if protection & (PROT_WRITE | PROT_EXEC) != PROT_WRITE | PROT_EXEC:
            cage.add_rule(seccomp.ALLOW, "mmap", seccomp.Arg(2, seccomp.EQ, protection))
    for name in "mprotect", "pkey_mprotect":
        cage.add_rule(seccomp.ALLOW, name, seccomp.Arg(2, seccomp.MASKED_EQ, PROT_EXEC, 0))
    for family in rules["RestrictAddressFamilies"].split():
        cage.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.EQ, int(getattr(socket, family))))
    assert rules["NoNewPrivileges"] == "yes"
    cage.set_attr(seccomp.Attr.CTL_NNP, 1)
    return cage


if __name__ == "__main__":
    filter_of(sys.argv[1]).load()
    os.execvp(sys.argv[2], sys.argv[2:])
