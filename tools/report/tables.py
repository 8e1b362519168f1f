"""The tables of docs/results/README.md, of all comparisons and of the planner, and the figures that the plots are drawn from."""

import statistics

from pages import markdown_table
from results import Cell, number, rate

AMX, XEON, ZEN3, ZEN, ZEN5 = "Xeon, AMX", "Xeon", "Zen 3", "Zen 4", "Zen 5"
EIGHT, SHAPES = "epyc-zen5/2026-11-28/llama-8b-layers.json", "epyc-zen5/2026-11-28/shapes.json"
AVX2, DEEP = "epyc-zen3/2026-11-29/shapes.json", "epyc-zen3/2026-11-29/smollm2-depth.json"
EIGHT3 = "epyc-zen3/2026-11-29/llama-8b-q8-layers.json"
LLAMA, IK, OPENVINO = "llama.cpp", "ik_llama.cpp", "OpenVINO GenAI"
# Rows of the speed table from results of compare.py: machine, model, work, result file, model file and case in it.
COMPARED = (
    (AMX, "SmolLM2-135M shape Q8_0", "decode", "xeon-amx/2026-11-23/q8_0.json", "S-Q8_0.gguf", "decode"),
    (AMX, "SmolLM2-135M shape Q8_0", "prompt of 512", "xeon-amx/2026-11-23/q8_0.json", "S-Q8_0.gguf", "prefill"),
    (AMX, "SmolLM2-135M shape Q8_0", "prompt of 8,192", "xeon-amx/2026-11-23/s-q8_0-batches-depth.json", "S-Q8_0.gguf", "prefill8k"),
    (AMX, "SmolLM2-135M shape Q8_0", "16 sequences decode", "xeon-amx/2026-11-23/s-q8_0-batches-depth.json", "S-Q8_0.gguf", "batch16"),
    (AMX, "SmolLM2-135M shape Q8_0", "decode after 4,096 tokens, q8 cache",
     "xeon-amx/2026-11-23/s-q8_0-batches-depth.json", "S-Q8_0.gguf", "deep4k-q8"),
    (AMX, "Llama-3.2-1B shape Q8_0", "decode", "xeon-amx/2026-11-23/q8_0.json", "M-Q8_0.gguf", "decode"),
    (AMX, "Llama-3.2-1B shape Q8_0", "prompt of 512", "xeon-amx/2026-11-23/q8_0.json", "M-Q8_0.gguf", "prefill"),
    (AMX, "Llama-3.2-1B shape Q4_K_M", "decode", "xeon-amx/2026-11-23/m-q4.json", "M-Q4_K_M.gguf", "decode"),
    (AMX, "SmolLM2-135M shape Q8_0, AVX2 only", "decode", "xeon-amx/2026-11-21/held-to-avx2.json", "S-Q8_0.gguf", "decode"),
    (XEON, "SmolLM2-135M shape Q8_0", "decode", "xeon/2026-11-23/s-q8_0.json", "S-Q8_0.gguf", "decode"),
    (XEON, "SmolLM2-135M shape Q8_0", "prompt of 512", "xeon/2026-11-23/s-q8_0.json", "S-Q8_0.gguf", "prefill"),
    (XEON, "SmolLM2-135M shape Q8_0", "16 sequences decode", "xeon/2026-11-23/s-q8_0.json", "S-Q8_0.gguf", "batch16"),
    (XEON, "SmolLM2-135M shape Q8_0", "decode after 4,096 tokens", "xeon/2026-11-23/s-q8_0.json", "S-Q8_0.gguf", "deep4k"),
    (XEON, "Llama-3.2-1B shape Q8_0", "decode", "xeon/2026-11-22/m-q8_0.json", "M-Q8_0.gguf", "decode"),
    (XEON, "Llama-3.2-1B shape Q4_K_M", "decode", "xeon/2026-11-23/m-q4.json", "M-Q4_K_M.gguf", "decode"),
    (ZEN5, "Llama-3.1-8B shape Q4_K_M, 8 layers", "decode", EIGHT, "8b8-Q4_K_M.gguf", "decode"),
    (ZEN5, "Llama-3.1-8B shape Q4_K_M, 8 layers", "prompt of 512", EIGHT, "8b8-Q4_K_M.gguf", "prefill"),
    (ZEN5, "Llama-3.1-8B shape IQ4_XS, 8 layers", "prompt of 512", EIGHT, "8b8-IQ4_XS.gguf", "prefill"),
    (ZEN5, "SmolLM2-135M shape Q8_0", "decode", SHAPES, "smollm2-Q8_0.gguf", "decode"),
    (ZEN5, "SmolLM2-135M shape Q8_0", "prompt of 512", SHAPES, "smollm2-Q8_0.gguf", "prefill"),
    (ZEN5, "Qwen3-0.6B shape Q4_K_M", "decode", SHAPES, "qwen3-0.6b-Q4_K_M.gguf", "decode"),
    (ZEN5, "Qwen3-0.6B shape Q4_K_M", "prompt of 512", SHAPES, "qwen3-0.6b-Q4_K_M.gguf", "prefill"),
    (ZEN3, "Llama-3.1-8B shape Q4_K_M, 8 layers", "decode", AVX2, "8b8-Q4_K_M.gguf", "decode"),
    (ZEN3, "Llama-3.1-8B shape Q4_K_M, 8 layers", "prompt of 512", AVX2, "8b8-Q4_K_M.gguf", "prefill"),
    (ZEN3, "Llama-3.1-8B shape Q8_0, 8 layers", "decode", EIGHT3, "8b8-Q8_0.gguf", "decode"),
    (ZEN3, "Llama-3.1-8B shape Q8_0, 8 layers", "prompt of 512", EIGHT3, "8b8-Q8_0.gguf", "prefill"),
    (ZEN3, "SmolLM2-135M shape Q8_0", "decode", AVX2, "smollm2-Q8_0.gguf", "decode"),
    (ZEN3, "SmolLM2-135M shape Q8_0", "prompt of 512", AVX2, "smollm2-Q8_0.gguf", "prefill"),
    (ZEN3, "SmolLM2-135M shape Q8_0", "8 sequences decode", DEEP, "smollm2-Q8_0.gguf", "batch8"),
    (ZEN3, "SmolLM2-135M shape Q8_0", "decode after 4,096 tokens", DEEP, "smollm2-Q8_0.gguf", "deep4k"),
    (ZEN3, "SmolLM2-135M shape Q8_0", "decode after 4,096 tokens, q8 cache", DEEP, "smollm2-Q8_0.gguf", "deep4k-q8"),
)
# Rows of the speed table from results with `tables`: machine, model, work, result file, number of the table, start of the row's
# cells, and the columns of kvick, llama.cpp, ik_llama.cpp and the two ratios.
TABLED = (
    (ZEN, "Llama-3.1-8B shape Q4_K_M, 8 layers", "decode", "epyc-zen4/2026-11-26/zen4-llama-8b-layers.json",
     0, ("8 layers", "decode 128"), (3, 4, 5, 6, 7)),
    (ZEN, "Llama-3.1-8B shape Q4_K_M, 8 layers", "prompt of 512", "epyc-zen4/2026-11-26/zen4-llama-8b-layers.json",
     0, ("8 layers", "prefill 512"), (3, 4, 5, 6, 7)),
    (ZEN, "Llama-3.1-8B shape Q4_K_M, 8 layers", "8 sequences decode", "epyc-zen4/2026-11-26/zen4-llama-8b-layers.json",
     0, ("8 layers", "8 sequences"), (3, 4, 5, 6, 7)),
    (ZEN, "Qwen3-0.6B shape Q8_0", "decode", "epyc-zen4/2026-11-26/zen4-shapes.json", 0, ("Qwen3-0.6B Q8_0",), (1, 2, 3, 4, 5)),
    (ZEN, "Llama-3.2-1B shape Q4_K_M", "decode", "epyc-zen4/2026-11-26/zen4-shapes.json",
     0, ("Llama-3.2-1B Q4_K_M",), (1, 2, 3, 4, 5)),
    (ZEN, "Gemma-3-1B shape Q8_0", "prompt of 512", "epyc-zen4/2026-11-26/zen4-shapes.json",
     1, ("Gemma-3-1B Q8_0",), (1, 2, 3, 4, 5)),
    (ZEN, "Qwen3-30B-A3B shape Q4_K_M, 4 layers", "decode", "epyc-zen4/2026-11-26/mixtures.json",
     0, ("Q4_K_M, decode, half an hour later",), (1, 2, 3, 4, 5)),
    (ZEN, "Qwen3-30B-A3B shape Q4_K_M, 4 layers", "prompt of 512", "epyc-zen4/2026-11-26/mixtures.json",
     0, ("Q4_K_M, prompt of 512",), (1, 2, 3, 4, 5)),
)


# Results of tools/plan/plan_check.py (formerly of kvick lab): the planner's predictions beside measurements.
PLANNED = (
    (AMX, "xeon-amx/2026-11-22/plan-check-smollm2.json"),
    (AMX, "xeon-amx/2026-11-22/plan-check-m.json"),
    (ZEN, "epyc-zen4/2026-11-30/plan-check-smollm2.json"),
)


def speed_rows(results):
    """Rows of (machine, model, work, tokens/s of kvick, llama.cpp and ik_llama.cpp, kvick's ratio to each of the two)."""
    for machine, model, work, path, file, case in COMPARED:
        rates = [results.rates(path, file, case, peer) for peer in ("kvick", LLAMA, IK)]
        yield [machine, model, work, *rates, *(results.ratio(path, file, case, peer) for peer in (LLAMA, IK))]
    for machine, model, work, path, table, row, columns in TABLED:
        cells = [results.table_cell(path, table, row, column) for column in columns]
        rates = [Cell(rate(number(cell.value)), path) for cell in cells[:3]]
        yield [machine, model, work, *rates, *(Cell(number(cell.value), path, "{:.2f}") for cell in cells[3:])]


def speed(results):
    head = ["machine", "model", "work", "kvick", LLAMA, IK, f"kvick / {LLAMA}", f"kvick / {IK}"]
    return markdown_table(head, speed_rows(results))


WASTE = "xeon-amx/2026-11-22/waste.json"
BREAKDOWN = "xeon-amx/2026-11-22/breakdown.json"
ALLOCATORS = "xeon-amx/2026-11-22/allocators-s.json"
SERVING = "xeon/2026-11-22/serving-s.json"
SHARING = "xeon-amx/2026-11-22/sharing.json"
USECASES = "xeon/2026-11-22/usecases.json"
EXACT = "[yes](speculation.md#are-the-answers-equal)"
# Strategy, its names in the experiments waste, breakdown, allocators, usecases, serving and sharing (None: not in that experiment),
# and its kind of attention: "bmm" (batched matrix multiplication) or "fused" (kvick's kernels).
STRATEGIES = (
    ("`iterative`", None, "iterative", "iterative", "iterative", None, None, "bmm"),
    ("`upfront`", "upfront", "upfront", "upfront", None, "upfront", None, "bmm"),
    ("`bmc`", "bmc:r=64", "bmc", "bmc:r=auto", "bmc:r=auto", "bmc:r=64", "bmc:r=16", "bmm"),
    ("`virtual`", "virtual", "virtual", "virtual", "virtual", "virtual", "virtual", "bmm"),
    ("`virtual`, kvick's kernels", "virtual", "virtual", "virtual", "virtual", "virtual", "virtual", "fused"),
    ("`paged`, kvick's kernels", "paged:block=32", "paged", "paged", None, "paged:block=32", "paged", "fused"),
)


def strategies(results):
    rows = []
    for name, waste, layer, model, use, serving, sharing, attention in STRATEGIES:
        faster = results.case(BREAKDOWN, "ways", shape="opt-13b", strategy=layer, attention=attention)["faster_than_iterative"]
        whole = results.case(ALLOCATORS, "ways", strategy=model, attention=attention)["faster_than_iterative"]
        ours = attention == "fused" or serving == "upfront"
        served = serving and results.case(SERVING, "cells", contexts=2, strategy=serving)["against_upfront"]
        saved = sharing and results.case(SHARING, "cells", answers="n=6", strategy=sharing)["saved"]
        used = results.load(USECASES)["summary"]["geometric_mean"].get(use) if attention == "bmm" or use == "virtual" else None
        if name.startswith("`paged`"):
            used = 1.0
        show_used = used is not None and not (use == "virtual" and attention == "bmm")
        rows.append([name, EXACT, waste and Cell(100 * results.load(WASTE)["summary"][waste], WASTE, "{:.1f} %"),
                     Cell(faster, BREAKDOWN, "{:.2f}"), Cell(whole, ALLOCATORS, "{:.2f}"),
                     Cell(used, USECASES, "{:.2f}") if show_used else None,
                     Cell(served, SERVING, "{:.2f}") if served and (ours or serving.startswith("bmc")) else None,
                     Cell(100 * saved, SHARING, "{:.0f} %") if saved is not None else None])
    head = ["strategy", "exact", "memory wasted", "speed of one layer's attention (`iterative` = 1)",
            "speed of a whole model (`iterative` = 1)", "speed in the use cases (`paged` = 1)",
            "throughput in the same memory (`upfront` = 1)", "memory saved when six answers share a prompt"]
    return markdown_table(head, rows)


QUANT = "xeon-amx/2026-11-22/quant.json"
BUDGET = "xeon/2026-11-22/budget.json"
MAPLE = "xeon/2026-11-23/budget-maple-sparq.json"
CLUSTERS = "epyc-zen5/2026-11-28/budget-clusters.json"
QUEST = "epyc-zen4/2026-11-30/budget-quest.json"
KVZAP = "epyc-zen5/2026-11-28/budget-kvzap.json"
TYPES = ("f16", "q8", "k=q8,v=q4", "kivi4", "mixed", "mixed:old=q4", "q4")
POLICIES = (("maple file=r16", MAPLE), ("sparq", BUDGET), ("clusters", CLUSTERS), ("loki file=pca", BUDGET), ("quest", QUEST),
            ("kvzap file=kvzap", KVZAP), ("h2o", BUDGET), ("scissorhands", BUDGET), ("streaming", BUDGET))


def type_points(results):
    """Rows of (type, bytes in percent of f16's, change of perplexity in percent, mean KL divergence, speed relative to f16)."""
    cells = {cell["key"]: cell["runs"][0] for cell in results.load(QUANT)["cells"]}
    for name in TYPES:
        run, summary = cells[name], results.load(QUANT)["summary"][name]
        yield (name, 100 * run["kv_bytes"] / cells["f16"]["kv_bytes"], summary["perplexity_against_f16_percent"],
               run["kl_mean"], summary["speed_against_f16"])


def policy_points(results, budget):
    """Rows of (policy, result file, bytes read in percent, change of perplexity in percent, mean KL divergence)."""
    for policy, path in POLICIES:
        entry = results.case(path, "cases", policy=policy, budget_percent=budget)
        yield policy.split()[0], path, entry["read_of_full_percent"], entry["over_full_percent"], entry["kl_mean"]


def quality(results):
    rows = [[f"type `{name}`", Cell(size, QUANT, "{:.0f} %"), Cell(change + 0.0 if abs(change) > 1e-9 else 0.0, QUANT, "{:+.2f} %"),
             Cell(abs(kl), QUANT, "{:.4f}"), Cell(speed, QUANT, "{:.2f}")]
            for name, size, change, kl, speed in type_points(results)]
    for budget in (25.0, 12.5):
        for policy, path, read, change, kl in policy_points(results, budget):
            rows.append([f"{budget:g} % of the rows, `{policy}`", Cell(read, path, "{:.0f} %"), Cell(change, path, "{:+.2f} %"),
                         Cell(kl, path, "{:.4f}"), None])
    head = ["rows", "bytes read, of all rows in f16", "change of perplexity, windows of 2,048 tokens",
            "mean KL divergence", "decode speed after 8,192 tokens (`f16` = 1)"]
    return markdown_table(head, rows)


SERVERS = (("epyc-zen4/2026-11-26/servers-three.json", ZEN, 0.0, "TTFT p95, s", ("kvick Q8_0", "kvick Q4_1", "kvick bf16",
                                                                             "llama-server Q8_0", "llama-server Q4_1", "vLLM")),
           ("epyc-zen4/2026-11-25/servers-vllm.json", ZEN, 1.0, "TTFT p99, s", ("kvick Q8_0", "kvick Q4_1", "kvick bf16", "vLLM")),
           ("xeon/2026-11-25/servers-vllm.json", XEON, 1.0, "TTFT p99, s", ("kvick Q8_0", "kvick Q4_1", "kvick bf16", "vLLM")))


def serving(results):
    rows = []
    for path, machine, temperature, late, servers in SERVERS:
        for server in servers:
            runs = [run for run in results.load(path)["runs"] if (run["server"], run["temperature"]) == (server, temperature)]
            middle = {key: statistics.median(run[key] for run in runs) for key in ("output tok/s", "TTFT p50, s", late, "per token, ms")}
            rows.append([machine, f"{temperature:.0f}", server, Cell(rate(middle["output tok/s"]), path),
                         Cell(middle["TTFT p50, s"], path, "{:.2f} s"),
                         Cell(middle[late], path, "{:.2f} s (" + late[5:8] + ")"),
                         Cell(middle["per token, ms"], path, "{:.0f} ms"), Cell(f"{len(runs)}", path)])
    head = ["machine", "temperature", "server", "output tokens/s", "first token, median", "first token, tail", "between tokens", "runs"]
    return markdown_table(head, rows)


ONE = "xeon/2026-11-25/ranks-one-machine.json"
LINKS = "epyc-zen4/2026-11-25/ranks-links.json"
RPC = "epyc-zen4/2026-11-26/ranks-rpc-server.json"
ROUNDED = "epyc-zen5/2026-11-28/ranks-links.json"
REPLICAS = "not-recorded/2026-11-25/replicas.json"


def scale(results):
    def cell(path, table, row, column):
        return results.table_cell(path, table, row, column)

    rows = [["two ranks of one core, one machine", model, cell(ONE, 0, (key,), 2 + at), "one process", cell(ONE, 0, (key,), 1 + at)]
            for key, shape in (("S", "SmolLM2-135M Q4_1"), ("M", "Llama-3.2-1B Q4_0"), ("8B", "Llama-3.1-8B Q4_0"))
            for at, model in ((0, f"{shape}, prompt"), (3, f"{shape}, decode"))]
    for link in ("1 Gb/s, 30 us", "10 Gb/s, 30 us"):
        rows += [[f"two machines of one core, {link}", name, cell(RPC, 0, (link,), column + 1), "llama.cpp's rpc-server",
                  cell(RPC, 0, (link,), column)]
                 for name, column in (("SmolLM2-135M Q4_1, prompt", 1), ("SmolLM2-135M Q4_1, decode", 3),
                                      ("Llama-3.2-1B Q4_0, prompt", 5), ("Llama-3.2-1B Q4_0, decode", 7))]
        rows.append([f"two machines of one core, {link}", "Llama-3.1-8B Q4_0, decode, `--ranks`", cell(LINKS, 0, (link,), 5),
                     "`--pipeline`", cell(LINKS, 0, (link,), 6)])
        rows += [[f"two machines of one core, {link}", f"{name}, prompt, `--rank-activations int8`", cell(ROUNDED, 0, (link,), column + 1),
                  "`f32`", cell(ROUNDED, 0, (link,), column)]
                 for name, column in (("SmolLM2-135M Q4_1", 1), ("Llama-3.2-1B Q4_K_M", 4))]
    for router in ("vllm", "sglang"):
        rows.append([f"two replicas behind {router}-router", "prompt tokens found in a cache, `cache_aware`",
                     cell(REPLICAS, 0, (router, "`cache_aware`"), 3), "`round_robin`", cell(REPLICAS, 0, (router, "`round_robin`"), 3)])
    return markdown_table(["set-up", "model and work", "kvick", "compared with", "its figure"], rows)


def comparisons(results):
    """The table of every model file and case in all results of compare.py."""
    rows = []
    for path in results.files():
        data = results.load(path)
        if "measurements" not in data:
            continue
        titles = dict.fromkeys((m["file"], m["case"]) for m in data["measurements"])
        others = [peer for peer in data["peers"] if peer != "kvick"]
        for file, case in titles:
            figures = [f"{peer} {results.rates(path, file, case, peer).value} ({results.ratio(path, file, case, peer).value:.2f})"
                       for peer in others if results.ratio(path, file, case, peer)]
            rows.append([path.split("/")[0], path.split("/")[1], file.removesuffix(".gguf"), f"`{case}`",
                         results.rates(path, file, case, "kvick"), "; ".join(figures)])
    return markdown_table(["machine", "date", "file", "case", "kvick", "others (how many times as fast kvick is)"], rows)


def planner_points(results):
    """(machine, result file, predicted tokens/s, measured tokens/s, whether the planned bytes were right) for each cell."""
    for machine, path in PLANNED:
        for cell in results.load(path)["cells"]:
            values = {key: statistics.median(run[key] for run in cell["runs"]) for key in cell["runs"][0]}
            yield machine, path, values["predicted_tok_s"], values["measured_tok_s"], values["planned_bytes"] == values["counted_bytes"]


def planner(results):
    """The table of the planner's errors: for each result file the median and the worst error of its cells, in percent of the smaller
    of the predicted and the measured speed."""
    rows = []
    for machine, path in PLANNED:
        points = [point for point in planner_points(results) if point[1] == path]
        off = [100 * (max(planned, measured) / min(planned, measured) - 1) for _, _, planned, measured, _ in points]
        models = sorted({cell["what"].get("model", "") for cell in results.load(path)["cells"]} - {""})
        name = path.split("/")[-1].removesuffix(".json")
        equal = sum(same for *_, same in points)
        rows.append([machine, f"[{name}]({path})", f"{len(points)}" + (f" of {len(models)} models" if len(models) > 1 else ""),
                     f"{statistics.median(off):.0f} %", f"{max(off):.0f} %", f"{equal} of {len(points)}"])
    return markdown_table(["machine", "file", "cells", "median error", "worst error", "cells whose memory was planned to the byte"], rows)
