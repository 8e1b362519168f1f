"""Shared by the scripts that record llama.cpp's logits: the format of the results, and the index of all recorded cases."""
import binascii
import hashlib
import json
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent / "logits"
SAMPLED, TOP = 64, 8


def log_sum_exp(logits):
    top = logits.max(-1)
    return top + np.log(np.exp((logits - top[:, None]).astype(np.float64)).sum(-1))


def kl(p, q):
    p, q = (x.astype(np.float64) - log_sum_exp(x)[:, None] for x in (p, q))
    return (np.exp(p) * (p - q)).sum(-1)


def sampled_ids(vocab):
    return [(2 * i + 1) * vocab // (2 * SAMPLED) for i in range(SAMPLED)]


def compact(logits):
    ids = np.argsort(-logits, axis=-1, kind="stable")[:, :TOP]
    columns = [logits[:, sampled_ids(logits.shape[1])], log_sum_exp(logits)[:, None],
               np.linalg.norm(logits.astype(np.float64), axis=-1)[:, None],
               ids, np.take_along_axis(logits, ids, -1)]
    return np.concatenate(columns, -1).astype("<f4")


def widen(source, target):
    """Writes the model to target with all tensors converted to float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind,
                             field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def difference(a, b):
    """The measures of tests/parity: max|a - b| / max|b| per position, here over all ids, and KL(b || a)."""
    relative = np.abs(a - b).max(-1) / np.abs(b).max(-1)
    return {"relative_max": round(float(relative.max()), 7), "relative_mean": round(float(relative.mean()), 7),
            "kl_max": round(float(kl(b, a).max()), 8), "kl_mean": round(float(kl(b, a).mean()), 8)}


def file_facts(path):
    data = path.read_bytes()
    return {"bytes": len(data), "crc32": binascii.crc32(data), "sha256": hashlib.sha256(data).hexdigest()}


def update_index(kind, fresh, peer=None):
    """Replaces the entries of the same name. Each entry is one line, so that a diff shows one line per change."""
    path = HERE / "index.json"
    index = json.loads(path.read_text()) if path.exists() else {"logits": [], "pooled": [], "greedy": [], "perplexity": []}
    key = lambda entry: entry.get("name") or entry["text"]
    index[kind] = list(({key(e): e for e in index.get(kind, [])} | {key(e): e for e in fresh}).values())
    if peer:
        index["peer"] = peer
    parts = []
    for name, value in index.items():
        if isinstance(value, list):
            rows = ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in value)
            parts.append(f"  {json.dumps(name)}: [\n    {rows}\n  ]")
        else:
            parts.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
