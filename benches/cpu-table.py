#!/usr/bin/env python3
"""The table of docs/cpu-decoder.md: µs per event on one thread, at every level of this CPU.

    python3 benches/cpu-table.py target/release/ut-decode [OLDER/ut-decode]

Every round runs each case once, of both tools if there are two, so that what disturbs the machine disturbs all alike. The
fastest pass over 1000 synthetic events in batches of 256 counts. Trouble: two banks of a hundred, so that nearly every event
has some.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

LEVELS = {"avx2": "AVX2", "avx512": "AVX-512", "scalar": "portable"}
FEW = ["v5", "v5, MEP layout", "v4"]
CASES = {
    "v5": [],
    "v5, MEP layout": ["--set", "layout=mep"],
    "v5 without clustering": ["--no-clustering"],
    "v5, clusters of at most 4 strips": ["--max-cluster-size", "4"],
    "v5, `pp-high`": ["--profile", "pp-high"],
    "v4": ["--format", "v4"],
    "v4, MEP layout": ["--format", "v4", "--set", "layout=mep"],
}
TROUBLE = {
    "v5, a count of 255 in some banks": ("v5", "bad_header"),
    "v5, unsorted lanes in some banks": ("v5", "unsorted_lanes"),
    "v4, truncated banks": ("v4", "truncated"),
}


def microseconds(tool, level, sample, seconds):
    command = [tool, "throughput", "--untuned", "--threads", "1", "--set", f"cpu.simd={level}", "--json", "-"]
    run = subprocess.run([*command, "--duration", str(seconds), *sample], capture_output=True, text=True, check=True)
    return 1e6 / json.loads(run.stdout)["events_per_second"]["max"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("tools", nargs="+", help="the tool, and another to compare it with")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--duration", type=float, default=1, help="seconds of each measurement")
    options = options.parse_args()
    tools = [str(Path(tool).resolve()) for tool in options.tools]
    with tempfile.TemporaryDirectory() as folder:
        cases = dict(CASES)
        for name, (version, fault) in TROUBLE.items():
            output = str(Path(folder) / fault)
            command = [tools[0], "generate", "--quiet", "--n-events", "1000", "--bank-format", version]
            command += ["--corrupt", f"{fault}=0.02", "--output", output]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            tables = ["--boards", f"{output}/boards.bin", "--geometry", f"{output}/geometry.bin"]
            cases[name] = [f"{output}/events.mdf", *tables]
        flags = Path("/proc/cpuinfo").read_text()
        levels = [level for level in LEVELS if level == "scalar" or level.removesuffix("512") in flags]
        rows = [(level, name) for level in levels for name in (FEW if level == "scalar" else cases)]
        best = {}
        for _ in range(options.rounds):
            for level, name in rows:
                for tool in tools:
                    time = microseconds(tool, level, cases[name], options.duration)
                    best[level, name, tool] = min(time, best.get((level, name, tool), time))
    for level, name in rows:
        times = [best[level, name, tool] for tool in tools]
        ratio = [f"{times[1] / times[0]:.2f}"] if len(tools) > 1 else []
        print("|", " | ".join([f"{LEVELS[level]}, {name}", *(f"{time:.2f}" for time in times), *ratio]), "|")


if __name__ == "__main__":
    main()
