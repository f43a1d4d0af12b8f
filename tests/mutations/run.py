"""Plants the bugs of the lists beside this file into a copy of the repository, one after the other, and runs the tests that
should notice. Ends with exit code 1 if one survives that the list does not expect to, with 2 if a list does not fit the
sources any more.

All bugs of a package are built at once: where a list says `old`, the copy has `if planted(17) { new } else { old }`, and
the environment says which number is planted. So a whole run costs one build for each package, and a few seconds a bug.
`old` is therefore an expression, or statements that end with `;`, in a function that is not `const`.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().parent
TREE = ROOT / "target/mutations/tree"
BUILT = ROOT / "target/mutations/built"
LIMIT_S = 300

# The packages whose sources have bugs, and where their `planted` goes.
CRATES = {"kernels/": "kernels/src/lib.rs", "simt/": "simt/src/lib.rs", "host/": "host/lib.rs", "tuner/": "tuner/src/lib.rs"}

PLANTED = """

/// Whether a bug is planted: its number is in the environment.
#[doc(hidden)]
pub fn planted(number: u32) -> bool {
    extern crate std;
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("PLANTED").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    *CHOSEN.get_or_init(chosen) == number
}
"""


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def read_lists():
    """The areas, by name, and all bugs, numbered from 1."""
    areas, bugs = {}, []
    for path in sorted(LISTS.glob("*.toml")):
        area = tomllib.loads(path.read_text())
        area["name"] = path.stem
        areas[path.stem] = area
        for bug in area.pop("bug"):
            missing = {"file", "old", "new", "why"} - bug.keys()
            if missing:
                fail(f"{path.name}: {bug.get('old')!r} lacks {', '.join(sorted(missing))}")
            bugs.append({**bug, "area": path.stem, "number": len(bugs) + 1})
    return areas, bugs


def plant(bugs):
    """The text of each changed file, with all its bugs; and what is wrong with the lists."""
    texts, wrong = {}, []
    for file in sorted({bug["file"] for bug in bugs}):
        path = ROOT / file
        source = path.read_text() if path.is_file() else ""
        places = {}
        for bug in (bug for bug in bugs if bug["file"] == file):
            n = source.count(bug["old"])
            if n == 1:
                places.setdefault((source.index(bug["old"]), bug["old"]), []).append(bug)
            else:
                wrong.append(f"{bug['area']}.toml, {file}: occurs {n} times, and not once: {bug['old']!r}")
        end = len(source)
        for (at, old), here in sorted(places.items(), key=lambda place: place[0][0], reverse=True):
            if at + len(old) > end:
                wrong.append(f"{here[0]['area']}.toml, {file}: lies across another bug: {old!r}")
                continue
            if re.search(r"^\s*let\b", old, re.M):
                wrong.append(f"{here[0]['area']}.toml, {file}: declares what the code behind it uses: take the value alone: {old!r}")
            functions = re.findall(r"^ *(?:pub\S* )?(const )?(?:unsafe )?fn ", source[:at], re.M)
            if functions and functions[-1]:
                wrong.append(f"{here[0]['area']}.toml, {file}: is in a function that is `const`: {old!r}")
            choice = f"{{ {old} }}"
            for bug in here:
                choice = f"if crate::planted({bug['number']}) {{ {bug['new']} }} else {choice}"
            if not old.endswith((";", "}")):
                choice = f"({choice})"
            source = source[:at] + choice + source[at + len(old):]
            end = at
        parsed = subprocess.run(["rustfmt", "--edition", "2024", "--quiet"], input=source, capture_output=True, text=True)
        if parsed.returncode != 0:
            wrong.append(f"{file}: with its bugs it is not Rust: is an `old` there neither an expression nor whole statements?"
                         f"\n{parsed.stderr}")
        texts[file] = source
    return texts, wrong


def copy_tree(texts):
    """Brings the copy up to date; what has not changed stays as it is, so that little is built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True).stdout.split(b"\0")
    wanted = {os.fsdecode(name) for name in listed if name and (ROOT / os.fsdecode(name)).is_file()}
    for old in (path for path in TREE.rglob("*") if path.is_file()):
        if str(old.relative_to(TREE)) not in wanted:
            old.unlink()
    for name in wanted:
        data = (ROOT / name).read_bytes()
        if name in texts:
            data = texts[name].encode()
        if name in CRATES.values():
            data += PLANTED.encode()
        to = TREE / name
        if not to.is_file() or to.read_bytes() != data:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
            to.chmod((ROOT / name).stat().st_mode)


def environment(area):
    env = {**os.environ, "CARGO_TARGET_DIR": str(BUILT), **area.get("environment", {})}
    # Packages of others are built where the repository itself builds them; ours, by another compiler's name, apart.
    env.setdefault("CARGO_BUILD_BUILD_DIR", str(ROOT / "target"))
    env["RUSTC_WORKSPACE_WRAPPER"] = str(LISTS / "rustc.sh")
    env.setdefault("UT_DECODE_DATA", str(ROOT / "../shared/data"))
    # The same cases each time, and none made smaller.
    env |= {"PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "RUST_BACKTRACE": "0"}
    return env


class Programs:
    """The area's test programs, each built when it is first needed: most bugs fall to the first."""

    def __init__(self, area):
        self.area, self.built = area, {}

    def __getitem__(self, name):
        """Where the program is, and the folder of its package."""
        if name not in self.built:
            began = time.monotonic()
            self.built[name] = build(self.area, self.area["programs"][name])
            print(f"{self.area['name']}: {name} built in {time.monotonic() - began:.0f} s", flush=True)
        return self.built[name]


def build(area, target):
    command = ["cargo", "test", "--no-run", "--message-format=json", *target.split()]
    built = subprocess.run(command, cwd=TREE, env=environment(area), capture_output=True, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    if built.returncode != 0:
        rendered = [m["message"]["rendered"] for m in messages
                    if m.get("reason") == "compiler-message" and m["message"]["level"] == "error"]
        fail(f"{area['name']}: the copy with its bugs cannot be built\n" + "\n".join(rendered or [built.stderr]))
    for message in messages:
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            package = Path(message["manifest_path"]).parent
            # Without a name, cargo also builds the programs of other packages.
            if "-p" in target.split() or package == TREE:
                return message["executable"], package
    fail(f"{area['name']}: {target!r} is no test program")


def run_test(command, folder, env, limit_s):
    """Runs a test program up to its first failure. Gives the test that failed, if one did, the output, and the exit code:
    None if it took too long."""
    began, lines, failed = time.monotonic(), [], None
    running = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    def kill():
        # With the programs that the tests have started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    alarm = threading.Timer(limit_s, kill)
    alarm.start()
    for line in running.stdout:
        lines.append(line)
        if found := re.match(r"test (\S+).*\.\.\. FAILED$", line):
            failed = found[1]
            kill()
    alarm.cancel()
    status, output = running.wait(), "".join(lines)
    if not failed and time.monotonic() - began >= limit_s:
        return None, output, None
    if status != 0 and not failed:
        # Other output has torn its line apart.
        listed = re.search(r"^    (\S+)$", output.rpartition("\nfailures:\n")[2], re.M)
        failed = listed and listed[1]
    return failed, output, status


def run_tests(area, programs, tests, number):
    """Runs each of `tests` ("program filter…") until one fails. Gives the failing test, None where all pass; and the time."""
    seconds = 0
    for test in tests:
        program, *filters = test.split()
        executable, package = programs[program]
        began = time.monotonic()
        env = {**environment(area), "PLANTED": str(number), "CARGO_MANIFEST_DIR": str(package)}
        failed, output, status = run_test([executable, *filters], package, env, LIMIT_S if number else 4 * LIMIT_S)
        seconds += time.monotonic() - began
        if status is None:
            return f"{program}: does not end", seconds
        if failed or status != 0:
            return f"{program}: {failed or f'ends with {status}'}", seconds
        if " 0 passed" in output:
            fail(f"{area['name']}: no test is called {test!r}")
    return None, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--area", action="append", help="only the bugs of this list; may be given again")
    parser.add_argument("--sample", type=int, help="only this many, drawn at random, all of one list where none is named")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400), help="seed of the random choice; by default it changes every day")
    parser.add_argument("--only", action="append", help="only bugs whose file, text or reason contains this; may be given again")
    parser.add_argument("--table", type=Path, help="write the result there, as a Markdown table")
    parser.add_argument("--check", action="store_true", help="only see whether the lists fit the sources")
    args = parser.parse_args()

    areas, bugs = read_lists()
    texts, wrong = plant(bugs)
    if wrong:
        fail("\n".join(wrong))
    for name in args.area or []:
        if name not in areas:
            fail(f"there is no area {name!r}: {', '.join(areas)}")
    chosen = [bug for bug in bugs if not args.area or bug["area"] in args.area]
    if args.only:
        searched = ("file", "old", "new", "why")
        chosen = [bug for bug in chosen if any(only in bug[key] for only in args.only for key in searched)]
    if args.sample is not None:
        draw = random.Random(args.seed)
        if not args.area and chosen:
            # Of one list: each has programs of its own to build.
            area = draw.choice(chosen)["area"]
            chosen = [bug for bug in chosen if bug["area"] == area]
        chosen = sorted(draw.sample(chosen, min(args.sample, len(chosen))), key=lambda b: b["number"])
        print(f"{len(chosen)} of {len(bugs)} bugs, drawn with --seed {args.seed}")
    if args.check:
        print(f"{len(bugs)} bugs, each where its list says")
        return

    copy_tree(texts)
    rows, survivors, late = [], [], []
    for area in areas.values():
        here = [bug for bug in chosen if bug["area"] == area["name"]]
        if not here:
            continue
        programs = Programs(area)
        if args.sample is None:
            failed, _ = run_tests(area, programs, area["tests"], 0)
            if failed:
                fail(f"{area['name']}: fails without a bug: {failed}")
        for bug in here:
            tests = [bug["test"]] if "test" in bug else area["tests"]
            killer, seconds = run_tests(area, programs, tests, bug["number"])
            expected = "survives" in bug
            if killer is None and not expected:
                survivors.append(bug)
            if killer is not None and expected:
                late.append(bug)
            verdict = killer or ("survives, as expected" if expected else "SURVIVES")
            print(f"{bug['file']}: {bug['old'].strip().splitlines()[-1].strip()} -> {bug['new'] or 'nothing'}: "
                  f"{verdict} ({seconds:.0f} s)", flush=True)
            rows.append((bug, killer, seconds))
    if args.table:
        args.table.write_text(table(rows))
    killed = sum(killer is not None for _, killer, _ in rows)
    print(f"{len(rows)} bugs: {killed} noticed, {len(rows) - killed - len(survivors)} survive as expected, "
          f"{len(survivors)} survive")
    for bug in late:
        print(f"noticed now, take `survives` out of the list: {bug['file']}: {bug['old']}")
    sys.exit(1 if survivors else 0)


def table(rows):
    def code(text):
        return "`" + " ".join(text.split()).replace("|", "\\|").replace("`", "") + "`" if text.strip() else "nothing"
    lines = ["| file | instead of | planted | what it breaks | noticed by |", "|---|---|---|---|---|"]
    for bug, killer, _ in rows:
        by = killer or (f"nothing: {bug['survives']}" if "survives" in bug else "**nothing**")
        lines.append(f"| {bug['file']} | {code(bug['old'])} | {code(bug['new'])} | {bug['why']} | {by} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
