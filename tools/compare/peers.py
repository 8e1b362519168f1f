"""The engines that compare.py knows: how to run each for a case, and how to read the figure from its output.

An engine is one row of KINDS, a pair of functions. The first returns {name of a configuration: command} for a case; the best
configuration counts. The second reads the output of a finished command and returns a dict with `tok_s` (tokens per second) and,
if known, `roofline` (the share of the roofline).
"""
import dataclasses
import json
import pathlib
import re
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Setting:
    threads: int
    timeout: int  # time limit of one command in seconds
    scratch: pathlib.Path  # folder for llama.cpp's saved caches, which later rounds load
    folders: dict = dataclasses.field(default_factory=dict)  # {name of a file: Hugging Face folder of the same model}, for vLLM


@dataclasses.dataclass(frozen=True)
class Peer:
    label: str
    kind: str  # a key of KINDS
    path: str


class Refused(Exception):
    """An engine cannot run a case. The message is the engine's own."""


def shape(case, flags="pndb"):
    values = {"p": case.prompt, "n": case.decode, "d": case.depth, "b": case.parallel}
    return [text for flag in flags for text in (f"-{flag}", str(values[flag]))]


def kvick(peer, file, case, setting):
    context = case.depth + max(case.prompt, case.decode)
    command = [peer.path, "bench", "--json", "--quiet", "-r", "1", "-m", file, *shape(case), "--ctx", str(context),
               "--kv-type", case.kv, "--threads", str(setting.threads)]
    configurations = {"": command}
    if case.depth + case.prompt >= 4096:  # huge pages speed up long caches, but waste memory with short ones
        configurations["huge pages"] = [*command, "--kv", "virtual:hugepages=on"]
    return configurations


def llama_cpp(peer, file, case, setting):
    result = {}
    for flash in (True, False) if case.kv == "f16" else (True,):  # llama.cpp needs flash attention for quantised values
        for unified in (False, True) if case.parallel > 1 else (False,):
            name = f"flash {'on' if flash else 'off'}" + (", unified" if unified else "")
            command = [peer.path, str(HERE / "llama_cpp_bench.py"), "-m", file, *shape(case), "--kv-type", case.kv,
                       "--threads", str(setting.threads)]
            if case.parallel == 1 and case.depth >= 1024:
                state = f"{peer.label}-{pathlib.Path(file).name}-{case.depth}-{case.kv}-{flash}".replace("/", "_")
                command += ["--state", str(setting.scratch / state)]
            result[name] = command + ["--flash"] * flash + ["--unified"] * unified
    return result


def ik_llama(peer, file, case, setting):
    kv = {"f16": "f16", "q8": "q8_0"}[case.kv]
    common = ["-m", file, "-t", str(setting.threads), "-ctk", kv, "-ctv", kv]
    if case.parallel > 1:
        # Each shape is run twice, because the bench's own warm-up is only 16 tokens.
        parallel, cells = f"{case.parallel},{case.parallel}", case.parallel * (case.depth + case.decode)
        command = [f"{peer.path}/llama-batched-bench", *common, "-c", str(cells), "-b", "512", "-ub", "512", "-fa", "on",
                   "-npp", str(case.depth), "-ntg", str(case.decode), "-npl", parallel]
        return {"repacked": [*command, "-rtr"], "as in the file": command}
    repeats = "1" if case.depth + case.prompt > 1024 else "2"  # twice for short cases, because the bench's own warm-up is only one token
    command = [f"{peer.path}/llama-bench", *common, "-fa", "1", "-r", repeats, "-o", "json"]
    if case.depth:
        command += ["-p", "0", "-n", "0", "-gp", f"{case.depth},{case.decode}"]
    else:
        command += shape(case, "pn")
    return {"repacked": [*command, "-rtr", "1"], "as in the file": [*command, "-rtr", "0"]}


def openvino(peer, file, case, setting):
    command = [peer.path, str(HERE / "openvino_bench.py"), "-m", file, *shape(case), "--kv-type", case.kv,
               "--threads", str(setting.threads)]
    return {attention: [*command, "--attention", attention] for attention in ("paged", "stateful")}


def json_figure(done, case):
    return {"tok_s": json.loads(done.stdout.splitlines()[-1])[case.rate]}  # last line, because mistral.rs and vLLM print their logs first


def mistralrs(peer, file, case, setting):
    return {"": [peer.path, str(HERE / "mistralrs_bench.py"), "-m", file, *shape(case), "--kv-type", case.kv,
                 "--threads", str(setting.threads)]}


def vllm(peer, file, case, setting):
    # The name stands in each cell of the tables: all other engines read the file.
    return {"bf16 folder": [peer.path, str(HERE / "vllm_bench.py"), "-m", setting.folders[pathlib.Path(file).name],
                            *shape(case), "--kv-type", case.kv, "--threads", str(setting.threads)]}


def kvick_figure(done, case):
    figure = json_figure(done, case)
    phase = "prefill" if case.prompt else "decode"
    for result in json.loads(done.stdout).get("results", []):
        if result["phase"] == phase and result.get("roofline"):  # null if the machine was not measured
            figure["roofline"] = round(result["roofline"]["fraction"], 3)
    return figure


def ik_figure(done, case):
    if case.parallel == 1:
        return {"tok_s": max(json.loads(done.stdout)[0]["samples_ts"])}
    # The table is on stdout or stderr: | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | T s | S t/s |
    rows = re.findall(r"^\|\s*\d+ \|\s*\d+ \|\s*(\d+) \|(?:\s*[\d.]+ \|){4}\s*([\d.]+) \|",
                      done.stdout + "\n" + done.stderr, re.M)
    return {"tok_s": max(float(rate) for parallel, rate in rows if int(parallel) == case.parallel)}


KINDS = {"kvick": (kvick, kvick_figure), "llama-cpp": (llama_cpp, json_figure), "ik": (ik_llama, ik_figure),
         "openvino": (openvino, json_figure), "mistralrs": (mistralrs, json_figure), "vllm": (vllm, json_figure)}


def configurations(peer, file, case, setting):
    return KINDS[peer.kind][0](peer, file, case, setting)


def without_folders(text):
    """The text with paths shortened to their last part, so that results contain no folders of this machine."""
    return re.sub(r"(?<![\w.:])(?:/[^\s/:'\"]+)+/(?=[^\s/])", "", text)


def words_of(error_output, status):
    lines = [line.strip() for line in error_output.splitlines() if line.strip()]
    return without_folders(lines[-1])[:200] if lines else f"exit status {status}"


def measure(peer, command, case, setting):
    """Runs one command. Returns tok_s, the command's duration in seconds, and the share of the roofline if known. Raises Refused."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=setting.timeout,
                              cwd=setting.scratch)
    except subprocess.TimeoutExpired:
        raise Refused(f"took more than {setting.timeout} s") from None
    except OSError as error:
        raise Refused(without_folders(str(error))) from None
    if done.returncode != 0:
        raise Refused(words_of(done.stderr or done.stdout, done.returncode))
    try:
        figure = KINDS[peer.kind][1](done, case)
    except (ValueError, KeyError, IndexError, TypeError):
        raise Refused(f"printed no figure: {words_of(done.stderr or done.stdout, 0)}") from None
    return figure | {"seconds": round(time.monotonic() - start, 1)}
