"""Checks that what `ut-decode … --json` writes fits the schemas in docs/schemas: a run of each command, and every schema.

    python tests/schemas.py target/debug/ut-decode

needs the package jsonschema. Ends with an error at the first command whose JSON does not fit.
"""

import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parent.parent / "docs" / "schemas"

# What the commands need.
SETUP = [
    "generate --events 5 --output .",
    "convert events.mdf --output dumps",
    "tune run --backend synthetic:seed=3 --budget 12 --finalists 1 --tune-db unfinished",
    "tune store export 1 --format t4 --output run.t4 --tune-db unfinished",
    "tune store import run.t4 --tune-db imported",
]

# The schema, and a command that writes such a JSON; later ones read what earlier ones wrote.
COMMANDS = [
    ("decode", "decode events.mdf"),
    ("decode", "decode events.mdf --output hits.csv"),
    ("inspect", "inspect events.mdf"),
    ("inspect", "inspect dumps"),
    ("report", "report events.mdf --output report.html"),
    ("throughput", "throughput events.mdf --duration 0 --threads 1 --events 20"),
    ("throughput", "throughput events.mdf --duration 0 --threads 1 --events 20 --columns detector"),
    ("throughput", "throughput events.mdf --duration 0 --threads 1 --events 20 --batch 1,10 --stages"),
    ("kernels", "kernels --arch sm_86"),
    ("kernels-predict", "kernels --predict a5000 --predict h100"),
    ("compare", "compare samples.json samples.json --looks 4"),
    ("sweep", "sweep events.mdf --events 20 --axis batch=10,20 --rounds 1 --output sweep"),
    ("ablation", "ablation --events 1 --profile pp-low"),
    ("tune-run", "tune run --backend synthetic:seed=3 --budget 12 --finalists 1 --tune-db db"),
    ("tune-explain", "tune explain --tune-db db"),
    ("tune-store-list", "tune store list --tune-db db"),
    ("tune-store-show", "tune store show 1 --tune-db db"),
    ("tune-store-list", "tune store list --tune-db imported"),
    ("tune-store-show", "tune store show 1 --tune-db imported"),
    ("tune-store-list", "tune store list --tune-db unfinished"),
    ("tune-store-show", "tune store show 1 --tune-db unfinished"),
    ("tune-replay", "tune replay --score db --evaluations 20 --seeds 1"),
    ("tune-groups", "tune groups groups.toml --backend synthetic:seed=3 --budget 4 --looks 4 --tune-db other"),
    ("tune-workloads", "tune workloads pp-low events.mdf --budget 3 --launches 1 --rounds 3 --tune-db third"),
    ("tune-aa-test", "tune aa-test --duration 0 --rounds 2 --others 100 --profile pp-low"),
]


def check(condition, what):
    if not condition:
        sys.exit(f"schemas.py: {what}")


def main(tool):
    validators = {}
    for path in SCHEMAS.glob("*.json"):
        schema = json.loads(path.read_text())
        Draft202012Validator.check_schema(schema)
        validators[path.stem] = Draft202012Validator(schema)
    untried = set(validators) - {name for name, _ in COMMANDS}
    check(not untried, f"no command is tried for {untried}")
    with tempfile.TemporaryDirectory() as folder:
        for line in SETUP:
            subprocess.run([tool, *line.split(), "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        # As if that run had been killed at its end.
        with contextlib.closing(sqlite3.connect(Path(folder) / "unfinished")) as store, store:
            store.execute("DELETE FROM decisions")
            store.execute("UPDATE runs SET finished = NULL")
        (Path(folder) / "samples.json").write_text("[[1.0, 1.1], [1.0, 1.2], [1.1, 1.0], [1.0, 1.1]]")
        (Path(folder) / "groups.toml").write_text('[[group]]\ntogether = ["block", "layout"]\n')
        for name, line in COMMANDS:
            run = subprocess.run([tool, *line.split(), "--json", "-", "--quiet"], cwd=folder, capture_output=True)
            # A comparison of samples so few may end without a verdict: exit code 4.
            check(run.returncode in (0, 4), f"{line}: {run.stderr.decode()}")
            found = json.loads(run.stdout)
            check("schema_version" in found, f"{line}: no schema_version")
            for error in validators[name].iter_errors(found):
                check(False, f"{line}: {'/'.join(map(str, error.absolute_path))}: {error.message}")
    print(f"{len(COMMANDS)} commands fit {len(validators)} schemas")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
