"""The data plane's cases on TransferQueue, beside our own figures.

    python3 transferqueue.py OWN_CASES OUT.json

OWN_CASES is the program made of own_cases.cpp. It runs before and after, so that a machine whose
speed drifts shows in its spread. Prints a table, and writes the rows in the form of the other
harnesses. Needs the package TransferQueue (0.1.11 is what the targets were set against); nothing of
weir depends on it. TransferQueue's client talks to storage processes on the same machine, as its
users run it; our store is in the caller's process. Its checkpoint is not synced; ours is.
"""
import importlib.metadata
import json
import logging
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TQ_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("RAY_DEDUP_LOGS", "1")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
logging.disable(logging.WARNING)

import ray
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
import transfer_queue as tq

PARTITION = "train"
MEBI = 1 << 20

# Case, what it is, its unit, and the ratio ours / theirs that is claimed (None: only shown).
CASES = [
    ("put_wide", "put of 1024 rows x 32 fields x 1 KiB", "ms", None),
    ("get_wide", "get of 1024 rows x 32 fields x 1 KiB", "ms", 1 / 50),
    ("put_large", "put of 288 MiB (1024 x 9 x 8192 f32)", "ms", None),
    ("get_large", "get of 288 MiB", "ms", None),
    ("put_one", "put of one row, 8 x 1 KiB", "ms", None),
    ("get_one", "get of one row", "ms", None),
    ("query", "16 rows by a tag among 65,536", "ms", None),
    ("save", "checkpoint of 32 MiB written (64 rows x 8 fields)", "ms", None),
    ("load", "that checkpoint read", "ms", None),
    ("disk_mib", "its bytes on disk", "MiB", None),
]


def milliseconds(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def table_of(rows, fields, values):
    return TensorDict(
        {f"field_{at}": torch.randn(rows, values) for at in range(fields)}, batch_size=(rows,)
    )


def put_and_get(results, name, shape, turns):
    rows, fields, values = shape
    data = table_of(rows, fields, values)
    for turn in range(-1, turns):
        keys = [f"{name}_{turn}_{row}" for row in range(rows)]
        put = milliseconds(lambda: tq.kv_batch_put(keys, PARTITION, fields=data))
        got = []
        get = milliseconds(lambda: got.append(tq.kv_batch_get(keys, PARTITION)))
        if turn < 0:  # The first opens connections.
            for field in data.keys():
                for one, other in zip(got[0][field].unbind(), data[field].unbind(), strict=True):
                    assert torch.equal(one, other), field
        else:
            results.setdefault(f"put_{name}", []).append(put)
            results.setdefault(f"get_{name}", []).append(get)
        tq.kv_clear(keys, PARTITION)


def query(results, turns):
    rows = 65536
    for begin in range(0, rows, 4096):
        keys = [f"query_{row}" for row in range(begin, begin + 4096)]
        tags = [{"group": row // 16} for row in range(begin, begin + 4096)]
        tq.kv_batch_put(keys, PARTITION, fields=table_of(4096, 1, 1), tags=tags)

    def find():
        listed = tq.kv_list(PARTITION)[PARTITION]
        assert len([key for key, tag in listed.items() if tag.get("group") == 7]) == 16

    results["query"] = [milliseconds(find) for _ in range(turns)]
    tq.kv_clear([f"query_{row}" for row in range(rows)], PARTITION)


def checkpoint(results, directory, turns):
    keys = [f"saved_{row}" for row in range(64)]
    tq.kv_batch_put(keys, PARTITION, fields=table_of(64, 8, 16384))
    target = os.path.join(directory, "checkpoint")
    for _ in range(turns):
        results.setdefault("save", []).append(milliseconds(lambda: tq.save_checkpoint(target)))
        size = sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(target)
            for name in names
        )
        results.setdefault("disk_mib", []).append(size / MEBI)
        results.setdefault("load", []).append(milliseconds(lambda: tq.load_checkpoint(target)))
        shutil.rmtree(target)


def measure_theirs(directory):
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=256 * MEBI,
    )
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 2}}}))
    results = {}
    try:
        put_and_get(results, "wide", (1024, 32, 256), 7)
        put_and_get(results, "large", (1024, 9, 8192), 7)
        put_and_get(results, "one", (1, 8, 256), 20)
        query(results, 7)
        checkpoint(results, directory, 7)
    finally:
        tq.close()
        ray.shutdown()
    return results


def measure_ours(program, directory, results):
    said = subprocess.run([program, directory], check=True, capture_output=True, text=True).stdout
    for line in said.splitlines():
        one = json.loads(line)
        results.setdefault(one["case"], []).extend(one["values"])


def commit():
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def row_of(case, ours, theirs):
    name, text, unit, target = case
    mine, baseline = statistics.median(ours[name]), statistics.median(theirs[name])
    ratio = mine / baseline
    return {
        "claim": text,
        "unit": unit,
        "ours": mine,
        "baseline": baseline,
        "baseline_name": "TransferQueue " + importlib.metadata.version("TransferQueue"),
        "ratio_median": ratio,
        "ratio_min": min(ours[name]) / max(theirs[name]),
        "ratio_max": max(ours[name]) / min(theirs[name]),
        "target": 1.0 if target is None else target,
        "holds": ratio <= (1.0 if target is None else target),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "commit": commit(),
    }


def main():
    program, out = sys.argv[1:]
    folder = os.path.dirname(os.path.abspath(out))
    os.makedirs(folder, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="peers-", dir=folder)
    ours = {}
    try:
        own = os.path.join(directory, "own")
        measure_ours(program, own, ours)
        theirs = measure_theirs(directory)
        measure_ours(program, own, ours)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    rows = [row_of(case, ours, theirs) for case in CASES]
    print(f"{'claim':<52} {'ours':>10} {rows[0]['baseline_name']:>21} {'unit':<4} {'ratio':>8}")
    for row in rows:
        print(
            f"{row['claim']:<52} {row['ours']:>10.4g} {row['baseline']:>21.4g} {row['unit']:<4}"
            f" {row['ratio_median']:>8.4f}  {'holds' if row['holds'] else 'DOES NOT HOLD'}"
        )
    with open(out, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
