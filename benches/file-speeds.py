#!/usr/bin/env python3
"""Measures `ut-decode decode` from files, compared with `throughput` on the same events.

    python3 benches/file-speeds.py target/release/ut-decode [--events 48000] [--rounds 7] > benches/results/file-speeds.md

Every round runs each case once, so that what disturbs the machine disturbs all cases alike. CPU time is user + system of the
whole process, its start (about 10 ms) included; the medians of the rounds are printed. `throughput` runs on one thread, and
its fastest pass counts: one that nothing disturbed takes no more time than it takes CPU time. Inputs lie beside the tool, on
a disk, and are in the page cache after they were written; from /dev/shm, page by page, the kernel reads half as fast.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def timed(command):
    """Returns wall and CPU seconds of a command; its standard output is dropped."""
    start = time.perf_counter()
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=nowhere)
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{command} failed")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def main():
    options = argparse.ArgumentParser()
    options.add_argument("tool")
    options.add_argument("--events", type=int, default=48000)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--folder", help="folder of the inputs; default: the folder of the tool")
    options = options.parse_args()
    tool = str(Path(options.tool).resolve())
    inputs = options.folder or str(Path(tool).parent)
    with tempfile.TemporaryDirectory(dir=inputs) as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        os.chdir(folder)
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        n = options.events // 24
        subprocess.run([tool, "generate", "--n-events", str(n), "--output", ".", "--quiet"], **quiet)
        for name in ["events.mdf.zst", "events.mep"]:
            subprocess.run([tool, "convert", "events.mdf", "--output", name, "--quiet"], **quiet)
        for name in ["events.mdf", "events.mdf.zst", "events.mep"]:
            Path(f"{name}.list").write_text(f"{name}\n" * 24)
        tables = ["--boards", "boards.bin", "--geometry", "geometry.bin", "--threads", str(options.threads), "--quiet"]

        def decode(name, *more):
            return [tool, "decode", f"@{name}.list", "--allow-repeated", *tables, *more]

        few = [tool, "decode", "events.mdf", *tables]
        zstd = shutil.which("zstd")
        cases = [
            ("MDF, no output", 24 * n, decode("events.mdf")),
            ("MDF, no output, `--no-checksum`", 24 * n, decode("events.mdf", "--no-checksum")),
            ("MEP packets, no output", 24 * n, decode("events.mep")),
            ("`.mdf.zst`, no output", n, [tool, "decode", "events.mdf.zst", *tables]),
            ("24 × `.mdf.zst`, no output", 24 * n, decode("events.mdf.zst")),
            ("MDF to Parquet, /dev/null", n, [*few, "--output", "/dev/null", "--format", "parquet"]),
            ("MDF to Parquet, /dev/shm", n, [*few, "--output", f"{memory}/hits.parquet"]),
            ("MDF to CSV, /dev/null", n, [*few, "--output", "/dev/null", "--format", "csv"]),
            ("MDF to CSV, /dev/shm", n, [*few, "--output", f"{memory}/hits.csv"]),
        ]
        if zstd:
            cases.append(("(`zstd -d` of that file)", n, [zstd, "-q", "-d", "-c", "events.mdf.zst"]))
            both = f"{zstd} -q -d -c events.mdf.zst & {zstd} -q -d -c events.mdf.zst; wait"
            cases.append(("(two of them at once)", 2 * n, ["sh", "-c", both]))
        bench = [tool, "throughput", "events.mdf", *tables[:4], "--threads", "1", "--duration", "1", "--json", "rate.json"]
        measured = {name: [] for name, _, _ in cases}
        rates = []
        for _ in range(options.rounds):
            timed(bench)
            rates.append(json.loads(Path("rate.json").read_text())["events_per_second"]["max"])
            for name, _, command in cases:
                measured[name].append(timed(command))
        names = ["events.mdf", "events.mdf.zst", "events.mep", f"{memory}/hits.parquet", f"{memory}/hits.csv"]
        sizes = {Path(name).name: Path(name).stat().st_size for name in names}
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    print("# Speed from files\n")
    print(f"`python3 benches/file-speeds.py target/release/ut-decode --events {24 * n} --rounds {options.rounds} --threads {options.threads}`, "
          f"commit {commit.stdout.strip()}, {datetime.date.today()}, {os.cpu_count()} cores of {model}, "
          f"Linux {platform.release().split('-')[0]}, load {os.getloadavg()[0]:.1f}. Generated pp-nominal v5 events of "
          f"{sizes['events.mdf'] // n} bytes; medians.\n")
    rate = max(rates)
    print(f"`throughput` on the same events in memory, one thread, fastest pass: {1e6 / rate:.1f} µs an event. The share of its "
          "rate is that of the CPU times: what a machine with nothing else to do gets from each of its cores.\n")
    print("| `ut-decode decode` | events | CPU time an event | share of `throughput` | wall time an event |")
    print("|---|---|---|---|---|")
    for name, events, _ in cases:
        wall, cpu = (statistics.median(values) for values in zip(*measured[name]))
        share = 100 * events / cpu / rate
        print(f"| {name} | {events} | {1e6 * cpu / events:.1f} µs | {share:.0f} % | {1e6 * wall / events:.1f} µs |")
    print("\nBytes an event: " + ", ".join(f"{name} {size // n}" for name, size in sizes.items()) + ".")


if __name__ == "__main__":
    main()
