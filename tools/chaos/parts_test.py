#!/usr/bin/env python3
"""Tests of the chaos test's router, ranks, conversations and report, without kvick: servers and mpirun are small programs."""

import collections
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import clients  # noqa: E402
import judging  # noqa: E402
import processes  # noqa: E402
import questions  # noqa: E402
import ranks  # noqa: E402
import report  # noqa: E402
import schedule  # noqa: E402

SECONDS = 20  # limit for what usually takes a moment
# Starts the program once for each rank, as mpirun does. If a rank ends, it kills the others and exits with status 1, or with 0 if all
# ranks have ended with 0. With "deaf" as a part of the program's name it waits for the end of all ranks.
MPIRUN = """#!{python}
import os, subprocess, sys, time
at = sys.argv.index("-np")
command = sys.argv[at + 2:]
ranks = [subprocess.Popen(command, env=dict(os.environ, OMPI_COMM_WORLD_RANK=str(r))) for r in range(int(sys.argv[at + 1]))]
enough = len(ranks) if "deaf" in sys.argv[0] else 1
while sum(rank.poll() is not None for rank in ranks) < enough:
    time.sleep(0.01)
time.sleep(0.2)
failed = any(rank.poll() != 0 for rank in ranks)
for rank in ranks:
    rank.kill()
    rank.wait()
sys.exit(1 if failed else 0)
"""
# A server's rank. Rank 0 prints the port, and makes the others end after SIGTERM by its own end with status 0.
KVICK = """#!{python}
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    time.sleep(0.2)
    print('{{"port": 1}}', flush=True)
while True:
    time.sleep(1)
"""


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text.format(python=sys.executable))
        path.chmod(0o755)
        return str(path)


class Ranks(Folder):
    def server(self, launcher="mpirun"):
        patch = mock.patch.object(ranks, "MPIRUN", self.program(launcher, MPIRUN))
        patch.start()
        self.addCleanup(patch.stop)
        server = ranks.RankServer("ranked", [self.program("kvick", KVICK)], self.folder, "ranked")
        self.addCleanup(server.kill)
        server.start()
        self.assertEqual((server.trouble, server.lives, server.down), ([], 1, False))
        return server

    def state(self, process):
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def test_all_ranks_are_found_and_measured(self):
        server = self.server()
        self.assertEqual(sorted(server.find()), [0, 1])
        self.assertEqual(server.find(), server.ranks)
        self.assertNotIn(server.process.pid, server.ids())
        self.assertGreater(server.resident(), 1)

    def test_the_death_of_a_rank_must_end_all(self):
        for rank in range(ranks.RANKS):
            server = self.server()
            server.kill_rank(rank, SECONDS)
            self.assertEqual((server.trouble, server.find(), server.alive()), ([], {}, False))
            self.assertFalse(server.died())  # it was not by itself
            self.assertIsNone(server.resident())

    def test_ranks_that_go_on_after_a_death_are_a_failure(self):
        server = self.server("deaf-mpirun")
        server.kill_rank(1, 0.5)
        self.assertEqual(len(server.trouble), 1, server.trouble)
        self.assertIn("did not end within 0.5 s of the death of rank 1", server.trouble[0])
        self.assertEqual((server.find(), server.alive()), ({}, False))

    def test_a_drain_ends_with_the_status_of_rank_0(self):
        server = self.server()
        with mock.patch.object(ranks, "send", wraps=ranks.send) as sent:
            server.end(signal.SIGTERM, SECONDS)
        self.assertEqual([call.args for call in sent.call_args_list if call.args[1] == signal.SIGTERM], [(mock.ANY, signal.SIGTERM)])
        self.assertEqual((server.trouble, server.find()), ([], {}))

    def test_a_rank_is_stopped_and_continues(self):
        server = self.server()
        go_on = server.pause(1)
        until = time.monotonic() + SECONDS
        while self.state(server.ranks[1]) != "T" and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.state(server.ranks[1]), "T")
        self.assertNotEqual(self.state(server.ranks[0]), "T")
        go_on()
        while self.state(server.ranks[1]) == "T" and time.monotonic() < until:
            time.sleep(0.01)
        self.assertNotEqual(self.state(server.ranks[1]), "T")

    def test_ranks_that_do_not_notice_a_stop_are_a_failure_unless_the_run_ends(self):
        for rank, ending, failures in ((1, False, 1), (0, False, 0), (1, True, 0)):
            server = self.server()
            stopping = threading.Event()
            if ending:
                stopping.set()
            with mock.patch.multiple(ranks, RANK_SECONDS=0.2, LATE_SECONDS=0.3), mock.patch.object(server, "goes_on", return_value=True):
                server.stall_rank(rank, SECONDS, stopping)
            self.assertEqual(len(server.trouble), failures, server.trouble)
            self.assertEqual((server.down, server.lives), (False, 1))

    def test_ranks_that_end_because_of_a_stop_are_started_again(self):
        server = self.server()
        ended = server.find()[0]
        threading.Timer(0.3, ranks.send, (ended, signal.SIGKILL)).start()
        server.stall_rank(1, SECONDS, threading.Event())
        self.assertEqual((server.trouble, server.lives, server.down), ([], 2, False))
        self.assertNotIn(ended, server.ids())

    def test_an_exit_without_a_fault_is_a_failure(self):
        server = self.server()
        ranks.send(server.find()[0], signal.SIGKILL)
        server.process.wait(SECONDS)
        self.assertTrue(server.died())
        server.kill_rank(1, SECONDS)
        self.assertEqual(server.trouble, ["ranked exited by itself with status 1"])

    def test_lines_about_a_lost_rank_are_expected_and_crashes_are_not(self):
        server = self.server()
        expected = ["kvick: rank 0 (process 5409 of vm) has ended; this rank ends too", "-" * 74, "",
                    "kvick: a step of the engine: a rank has not answered for 15 seconds",
                    "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 9 (Killed).",
                    "[vm:05405] 1 more process has sent help message help-mpi-api.txt / mpi-abort"]
        wrong = ["mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 11 (Segmentation fault).",
                 "[vm:05405] *** Process received signal ***", "kvick: rank 0 has crashed"]
        server.log.write_text("\n".join([*expected, *wrong]))
        self.assertEqual(judging.unexpected_lines(server), wrong)
        plain = processes.Server("plain", [], self.folder)
        plain.log.write_text(expected[0])
        self.assertEqual(judging.unexpected_lines(plain), expected[:1])


class Answering:
    """A server that answers each connection with its name once it has received a line, and closes it."""

    def __init__(self, name):
        self.name, self.port, self.socket = name, processes.free_port(), None
        self.closed = threading.Event()  # a client has closed its connection without a line

    def start(self):
        self.socket = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.run, args=(self.socket,), daemon=True).start()

    def run(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            if connection.makefile("rb").readline():
                connection.sendall(self.name)
            else:
                self.closed.set()

    def stop(self):
        if self.socket:
            self.socket.shutdown(socket.SHUT_RDWR)
            self.socket.close()
            self.socket = None


class Router(Folder):
    def setUp(self):
        super().setUp()
        self.servers = [Answering(b"one"), Answering(b"two")]
        for server in self.servers:
            self.addCleanup(server.stop)
            server.start()
        replicas = [processes.Server(server.name.decode(), [], self.folder, "plain", server.port) for server in self.servers]
        for replica in replicas:
            replica.down = False
        self.router = processes.Router(self.folder, replicas, None)
        self.addCleanup(self.router.kill)
        self.router.start()
        self.assertEqual((self.router.trouble, self.router.port), ([], self.router.own_port))

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.router.port), SECONDS)

    def ask(self):
        with self.connect() as connection:
            connection.sendall(b"name?\n")
            return connection.makefile("rb").read()

    def test_connections_alternate(self):
        self.assertEqual(sorted([self.ask(), self.ask()]), [b"one", b"two"])
        self.assertEqual(len({self.ask(), self.ask()}), 2)

    def test_a_refused_connection_goes_to_the_other_server(self):
        self.servers[0].stop()
        self.assertEqual([self.ask() for _ in range(4)], 4 * [b"two"])
        self.servers[0].start()
        self.assertEqual(len({self.ask(), self.ask()}), 2)

    def test_without_a_server_the_status_is_503(self):
        for server in self.servers:
            server.stop()
        self.assertTrue(self.ask().startswith(b"HTTP/1.1 503 "))

    def test_a_client_that_vanishes_is_noticed_by_its_server(self):
        self.connect().close()
        until = time.monotonic() + SECONDS
        while not any(server.closed.is_set() for server in self.servers) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(sum(server.closed.is_set() for server in self.servers), 1)

    def test_it_ends_with_status_0_and_its_running_answers(self):
        with self.connect() as connection:
            self.ask()  # the router has accepted the connection before
            threading.Timer(0.3, connection.sendall, (b"name?\n",)).start()
            self.assertEqual(self.router.end(signal.SIGTERM, SECONDS), 0)
            self.assertIn(connection.makefile("rb").read(), (b"one", b"two"))
        self.assertEqual(self.router.log.read_text(), "")

    def test_a_death_behind_it_excuses_a_broken_connection(self):
        began = time.monotonic()
        self.assertFalse(self.router.excuses(began))
        self.router.replicas[1].down = True
        self.assertTrue(self.router.excuses(began))
        self.router.replicas[1].down, self.router.replicas[1].since = False, time.monotonic()
        self.assertTrue(self.router.excuses(began))
        self.assertFalse(self.router.excuses(time.monotonic()))


class Requests(unittest.TestCase):
    def setUp(self):
        self.replicas = [types.SimpleNamespace(name=name, model="plain", policy=policy) for name, policy in (("plain", "loki"),
                                                                                                        ("replica", "duo"))]
        router = types.SimpleNamespace(name="router", model="plain", policy="", replicas=self.replicas)
        args = types.SimpleNamespace(seed=1, streams=1, seconds=1, bound=1)
        self.load = clients.Load(args, {server.name: server for server in (*self.replicas, router)}, questions.make_prompts(1, 6))

    def conversation(self, seed, ids):
        asked = []

        def insist(request, manner):
            self.assertEqual(manner, "asks")
            asked.append(request)
            request.ids = ids
        with mock.patch.object(self.load, "insist", insist):
            self.load.converse(random.Random(seed))
        return asked

    def test_turns_of_a_conversation_alternate_and_continue_each_other(self):
        ways = set()
        for seed in range(40):
            asked = self.conversation(seed, (7,) * questions.TOKENS)
            self.assertEqual(len(asked), questions.TURNS)
            ways.add(tuple(request.server.name for request in asked))
            for one, two in zip(asked, asked[1:]):
                before, after = one.body["prompt"], two.body["prompt"]
                self.assertEqual(after[:len(before) + questions.TOKENS], [*before, *one.ids])
                self.assertGreater(len(after), len(before) + questions.TOKENS)
                self.assertEqual((one.kind, one.salt, one.question.how), (two.kind, two.salt, two.question.how))
            self.assertEqual({request.body["n"] for request in asked}, {1})
            self.assertLessEqual(len(asked[-1].body["prompt"]) + questions.TOKENS, 1024)
        self.assertEqual(ways, {("plain", "replica", "plain"), ("replica", "plain", "replica"), 3 * ("router",)})

    def test_a_conversation_ends_with_a_turn_that_has_no_answer(self):
        self.assertEqual(len(self.conversation(1, ())), 1)

    def test_the_own_policy_of_a_server_is_named_by_no_request(self):
        none, own = questions.Kind(), questions.Kind(select="loki")
        self.assertEqual((none.fields(None), none.fields("loki"), none.fields("")), ({}, {"select": "none"}, {"select": "none"}))
        self.assertEqual(own.fields("loki"), {})
        self.assertEqual(questions.Kind(type="q8", select="h2o").fields("loki"), {"type": "q8", "select": "h2o"})
        generator = random.Random(1)
        kinds = {server.name: {clients.Request(self.load, server, generator).kind.select for _ in range(300)} & set(questions.FILES)
                 for server in self.load.servers.values()}
        self.assertEqual(kinds, {"plain": {"loki"}, "replica": {"duo"}, "router": set()})

    def test_only_own_policies_that_forget_nothing_are_compared(self):
        long, short = [7] * 300, [7] * 20
        self.assertEqual({name for name in questions.FILES if questions.Kind(select=name).exact_for(long)}, {"loki", "maple"})
        self.assertTrue(all(questions.Kind(select=name).exact_for(short) for name in questions.FILES))
        question = questions.Question("plain", "q8", 1, "likeliest", "loki")
        self.assertEqual(question.reference(self.load.prompts)["kv"], {"type": "q8"})  # the reference server has the file

    def test_other_seeds_have_other_own_policies(self):
        self.assertEqual({policy for seed in range(8) for policy in questions.own_policies(seed).values()}, set(questions.FILES))
        for seed in range(8):
            self.assertEqual(len(set(questions.own_policies(seed).values())), 3)

    def test_each_own_policy_has_its_own_reference_server(self):
        asked = collections.defaultdict(list)

        def start(model, policy):
            return types.SimpleNamespace(key=(model, policy), kill=lambda: None)

        def ask(server, body):
            asked[server.key].append(body)
            return 200, {"choices": [{"index": 0, "text": "a"}]}
        wanted = [questions.Question("plain", None, 1, "likeliest", select) for select in (None, "loki", "sparq", "maple")]
        reference = judging.Reference(start)
        with mock.patch.object(judging, "ask", ask):
            reference.learn(wanted, self.load.prompts)
            reference.learn(wanted, self.load.prompts)
        self.assertEqual({key: len(bodies) for key, bodies in asked.items()},
                         {("plain", None): 2, ("plain", "loki"): 1, ("plain", "maple"): 1})
        self.assertEqual(set(reference.answers), set(wanted))


class Report(unittest.TestCase):
    def test_each_server_has_its_counts_faults_and_lives(self):
        def fault(kind, target):
            return schedule.Fault(1, kind, 0, target, 0.1, 1)
        load = types.SimpleNamespace(requests=collections.Counter(plain=9), answered=collections.Counter(plain=5),
                                     compared=collections.Counter(plain=4))
        done = [fault("kill_server", "plain"), fault("flip_files", "plain"), fault("kill_server", "plain"), fault("kill_server", "states"),
                fault("kill_store", "store")]
        resident = {("plain", 2): [5.0, 9.0, 6.04], ("plain", 1): [4.0], ("states", 1): [1.0], ("plain", 3): []}
        servers = [types.SimpleNamespace(name="plain", lives=3), types.SimpleNamespace(name="states", lives=0)]
        made = report.servers(servers, load, done, resident)
        self.assertEqual(made["plain"], {"requests": 9, "answers": 5, "compared": 4, "faults": {"kill_server": 2, "flip_files": 1},
                                         "restarts": 2, "lives": [{"start": 1, "begin_mb": 4.0, "end_mb": 4.0, "most_mb": 4.0},
                                                                  {"start": 2, "begin_mb": 5.0, "end_mb": 6.0, "most_mb": 9.0}]})
        self.assertEqual((made["states"]["restarts"], made["states"]["requests"]), (0, 0))
        self.assertEqual(report.store(types.SimpleNamespace(lives=2), done), {"faults": {"kill_store": 1}, "restarts": 1})
        self.assertIsNone(report.store(None, done))


class Ports(unittest.TestCase):
    def test_a_port_is_below_those_of_outgoing_connections(self):
        low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        for _ in range(20):
            self.assertLess(processes.free_port(), low)


class Start(Folder):
    def test_without_mpirun_or_mpi_no_ranks_can_be_started(self):
        says = "#!/bin/sh\nshift $(($# - 2))\nexec \"$@\"\n"  # mpirun with one rank
        launcher = self.folder / "mpirun"
        launcher.write_text(says)
        launcher.chmod(0o755)
        able = self.program("able", "#!/bin/sh\necho kvick network needs at least two processes >&2\nexit 2\n")
        unable = self.program("unable", "#!/bin/sh\necho this kvick was built without MPI >&2\nexit 2\n")
        with mock.patch.object(ranks, "MPIRUN", str(launcher)):
            self.assertTrue(ranks.can_start(able))
            self.assertFalse(ranks.can_start(unable))
        with mock.patch.object(ranks, "MPIRUN", None):
            self.assertFalse(ranks.can_start(able))

    def test_the_seed_chooses_how_the_model_is_divided(self):
        self.assertIn("--pipeline", ranks.options(3))
        self.assertNotIn("--pipeline", ranks.options(4))

    def test_a_wrong_router_is_reported_before_anything_starts(self):
        done = subprocess.run([sys.executable, HERE / "chaos.py", "--kvick", "/bin/false", "--router", "no-such-router"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no-such-router is not a program", done.stderr)


if __name__ == "__main__":
    unittest.main()
