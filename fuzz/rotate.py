"""Runs the fuzzing targets in turn, and says what each has reached. fuzz/run.sh calls it.

rotate.py run PROGRAM SECONDS [TARGET…]    runs all targets, or those named, one on each core, slice after slice, until they are done;
                                           SIGTERM lets the running slices finish
rotate.py table                            the table of docs/fuzzing.md

An edge is ours if the source line where it begins is in this repository. Others are in generic code of libraries that is compiled
into ours, or inlined there: how a tree is balanced or a vector grows. They are counted, too, but only edges of ours begin the half
hour of a target anew.

`slices.jsonl` in the folder FUZZ_STATE has a line for each slice, so that the next run continues where this one ended. Where there
is none yet, it continues from the table in docs/fuzzing.md: the kept inputs meet the edges that are counted there.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATE = Path(os.environ.get("FUZZ_STATE", HERE))
SLICES = STATE / "slices.jsonl"
TABLE = HERE.parent / "docs/fuzzing.md"
SLICE_S = 300
# What a target must have: executions, and seconds of a core's time without a new edge of ours. All together: executions.
ENOUGH, ENOUGH_EMULATED, QUIET_S, ENOUGH_IN_ALL = 10**6, 10**5, 30 * 60, 10**8
TARGETS = re.findall(r'^    \("([a-z-]+)", ', (HERE / "src/lib.rs").read_text(), re.M)


class Reached:
    """What a target has reached in all its slices."""

    def __init__(self):
        self.seconds = self.executions = self.edges = self.inputs = 0
        # Seconds without a new edge, and without a new edge of ours.
        self.quiet = self.quiet_ours = 0
        self.program = self.crash = None

    def add(self, piece):
        self.seconds += piece["seconds"]
        self.executions += piece["executions"]
        self.edges, self.inputs = piece["edges"], piece["inputs"]
        for name in ("quiet", "quiet_ours"):
            last = piece[name]
            setattr(self, name, getattr(self, name) + piece["seconds"] if last is None else last)
        self.program, self.crash = piece["program"], piece["crash"]


def published():
    """A line for each target, as those of slices, from the table in docs/fuzzing.md."""
    rows = re.findall(r"^\| ([a-z-]+) " + r"\| (\d+) " * 6 + r"\|$", TABLE.read_text(), re.M)
    for target, *numbers in rows:
        minutes, executions, edges, inputs, quiet, quiet_ours = map(int, numbers)
        yield json.dumps({"target": target, "seconds": 60 * minutes, "executions": executions, "edges": edges,
                          "inputs": inputs, "quiet": 60 * quiet, "quiet_ours": 60 * quiet_ours, "crash": None,
                          "program": None})


def reached():
    all_of = {target: Reached() for target in TARGETS}
    for line in SLICES.read_text().splitlines() if SLICES.exists() else published():
        piece = json.loads(line)
        if piece["target"] in all_of:
            all_of[piece["target"]].add(piece)
    return all_of


def enough(target):
    return ENOUGH_EMULATED if target.endswith("emulated") else ENOUGH


def next_target(all_of, program):
    """First the target with the least time of those that lack executions, then the one that lacks least of the time without a
    new edge of ours, so that targets are finished one by one, and of several alike the smallest; then executions in all."""
    sound = {name: of for name, of in all_of.items() if not (of.crash and of.program == program)}
    if not sound:
        return None
    few = [name for name, of in sound.items() if of.executions < enough(name)]
    if few:
        return min(few, key=lambda name: sound[name].seconds)
    lively = [name for name, of in sound.items() if of.quiet_ours < QUIET_S]
    if lively:
        return max(lively, key=lambda name: (sound[name].quiet_ours // SLICE_S, -sound[name].edges))
    if sum(of.executions for of in all_of.values()) < ENOUGH_IN_ALL:
        return max(sound, key=lambda name: sound[name].executions / max(sound[name].seconds, 1))
    return min(sound, key=lambda name: sound[name].seconds)


def lines_of_ours(program, addresses):
    """The source line of each of the `addresses`, counted from where `program` was loaded; `None` if it is a library's."""
    given = "".join(f"{address:#x}\n" for address in addresses)
    lines = subprocess.run(["addr2line", "-e", program], input=given, capture_output=True, text=True, check=True).stdout
    # What is not known is ours.
    top = f"{HERE.parent}/"
    return [line.removeprefix(top) if line.startswith((top, "?")) else None for line in lines.splitlines()]


def run_slice(program, target, seconds, best):
    """Runs `target`; `best` are the most edges that this program has met. Gives the slice's line."""
    began, edges, inputs, executions, inited = time.monotonic(), 0, 0, 0, False
    command = [str(HERE / "run.sh"), target, str(seconds), "-print_pcs=1"]
    fuzzer = subprocess.Popen(command, env={**os.environ, "FUZZ_PROGRAM": program}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, errors="replace")
    # Addresses that were met for the first time by the input that runs; all that were new, with when.
    tail, base, met, new = [], 0, [], []
    for line in fuzzer.stderr:
        tail = [*tail[-40:], line]
        if found := re.match(r"\s+NEW_PC: 0x(\w+)", line):
            # libFuzzer prints the address after that of the edge.
            met.append(int(found[1], 16) - 1)
        elif found := re.match(r"#(\d+)\s+(\w+)\s+cov: (\d+) .*?corp: (\d+)/", line):
            executions, event, edges, inputs = int(found[1]), found[2], int(found[3]), int(found[4])
            if event == "INITED":
                inited, base = True, int(Path(f"/proc/{fuzzer.pid}/maps").read_text().split("-", 1)[0], 16)
            elif inited and edges > best:
                new += [(time.monotonic(), address - base) for address in met]
            if inited:
                best, met = max(best, edges), []
        elif found := re.match(r"stat::number_of_executed_units:\s+(\d+)", line):
            executions = int(found[1])
    _, status, used = os.wait4(fuzzer.pid, 0)
    status = fuzzer.returncode = os.waitstatus_to_exitcode(status)
    ended = time.monotonic()
    lines = lines_of_ours(program, [address for _, address in new]) if new else []
    ours = [(at, line) for (at, _), line in zip(new, lines) if line]
    last, last_ours = (max((at for at, _ in of), default=None) for of in (new, ours))
    # What other programs took of the core is not counted.
    core_s = used.ru_utime + used.ru_stime
    share = core_s / (ended - began)
    crash = None
    # Not the exit code of a fuzzer that was interrupted.
    if status not in (0, 72):
        crash = next((line.strip() for line in tail if "Test unit written to" in line), f"exit code {status}")
        (STATE / f"{target}.failed").write_text("".join(tail))
    return {"target": target, "at": int(time.time()), "seconds": round(core_s, 1), "executions": executions,
            "edges": max(best, edges), "inputs": inputs, "quiet": last and round(share * (ended - last), 1),
            "quiet_ours": last_ours and round(share * (ended - last_ours), 1),
            "new_of_ours": [line for _, line in ours[-20:]], "crash": crash}


def run(program, seconds, only):
    for name in only:
        if name not in TARGETS:
            sys.exit(f"no target {name}; there are {', '.join(TARGETS)}")
    end = time.monotonic() + seconds
    # A slice that is cut short is not lost.
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    name = hashlib.sha256(Path(program).read_bytes()).hexdigest()[:12]
    if not SLICES.exists():
        STATE.mkdir(parents=True, exist_ok=True)
        SLICES.write_text("".join(line + "\n" for line in published()))
    running, lock = set(), threading.Lock()

    def slices_of_a_core():
        while (left := end - time.monotonic()) > 0 and not stopped.is_set():
            with lock:
                all_of = reached()
                free = {other: of for other, of in all_of.items() if other not in running and other in (only or TARGETS)}
                target = next_target(free, name)
                if target is None:
                    print("every target that is not running has failed", file=sys.stderr)
                    return
                running.add(target)
            of = all_of[target]
            piece = run_slice(program, target, max(1, int(min(SLICE_S, left))), of.edges if of.program == name else 0)
            with lock:
                running.remove(target)
                with SLICES.open("a") as slices:
                    slices.write(json.dumps({**piece, "program": name}) + "\n")
                print(json.dumps(piece), flush=True)

    cores = [threading.Thread(target=slices_of_a_core) for _ in os.sched_getaffinity(0)]
    for core in cores:
        core.start()
    for core in cores:
        core.join()


def table():
    print("| target | minutes | executions | edges | inputs kept | minutes since the last new edge | of ours |")
    print("|---|---|---|---|---|---|---|")
    all_of = reached()
    for name, of in all_of.items():
        print(f"| {name} | {of.seconds / 60:.0f} | {of.executions} | {of.edges} | {of.inputs} | {of.quiet / 60:.0f} | {of.quiet_ours / 60:.0f} |")
    hours = sum(of.seconds for of in all_of.values()) / 3600
    print(f"\n{hours:.1f} hours, {sum(of.executions for of in all_of.values())} executions in all.")
    for name, of in all_of.items():
        if of.crash:
            print(f"{name} failed: {of.crash}")


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table()
    else:
        run(sys.argv[2], float(sys.argv[3]), sys.argv[4:])
