"""Tuning: the fastest of many ways to call a function, found by the tool's tuner and kept in its store."""

import functools
import json
import math
import operator
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import Error

Value = int | float | bool | str

# The tuner talks to its program over standard streams; this one hands them on to the pipes of the process that measures. The
# half that the tuner knows holds the pipe of requests, so that this ends with it.
_RELAY = """exec "$UT_TUNE_PYTHON" -S -c '
import os
answers, requests = (int(os.environ["UT_TUNE_" + name]) for name in ("ANSWERS", "REQUESTS"))
os.dup2(requests, 1) if os.fork() else os.dup2(answers, 0)
os.closerange(min(answers, requests), max(answers, requests) + 1)
os.execvp("cat", ["cat"])
'"""

# A call of Python cannot be ended from outside: no time is too long.
_LONGEST = "31536000"


@dataclass(frozen=True)
class Tuned:
    """What a tuning chose."""

    config: dict[str, Value]
    """A value for each parameter."""
    cost: float
    """The estimate of what was measured, for these values."""
    verdict: str
    """How they compare with the default, in words."""
    decision: dict[str, Any]
    """Everything behind it, as `ut-decode tune explain --json` has it."""


def tune(
    measure: Callable[..., float],
    parameters: Mapping[str, Sequence[Value]],
    *,
    constraints: Sequence[str] = (),
    default: Mapping[str, Value] | None = None,
    budget: str = "launches=200",
    name: str | None = None,
    store: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    seed: int = 1,
) -> Tuned:
    """The values of `parameters` for which `measure` gives the smallest number.

    Args:
        measure: called with a value for each parameter, by name; returns a positive number, less of which is better. An
            exception is a configuration that fails, and costs only itself.
        parameters: the values of each parameter, all of one kind.
        constraints: expressions over the parameters, such as "tile % threads == 0"; where one is false nothing is
            measured.
        default: what is used today. It is measured first, and replaced only by what is better twice.
        budget: when to stop, as for `ut-decode tune run`: "launches=200" bounds all calls, "time=60" all seconds.
        name: under which the store keeps it; the name of the function if left out.
        store: a file that keeps everything measured: a tuning that was interrupted goes on. A temporary one if left out.
        report: a folder for a page about it.
        seed: of all that is random.

    Raises:
        Error: nothing worked, or what is asked for cannot be.
    """
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "space.toml")
        space.write_text(_space(parameters, constraints, default), encoding="utf-8")
        what = name or str(getattr(measure, "__qualname__", "function"))
        command = f": {shlex.quote(what)}; {_RELAY}"
        args = ["tune", "run", "--space", str(space), "--command", command, "--stays", "--objective", "smaller"]
        args += ["--budget", budget, "--seed", str(seed), "--launches", "1", "--timeout", _LONGEST]
        args += ["--tune-db", os.fspath(store) if store is not None else str(Path(folder, "tune.sqlite"))]
        args += ["--report", os.fspath(report)] if report is not None else []
        _run(args, folder, measure, list(parameters))
        decision = json.loads(Path(folder, "decision.json").read_text(encoding="utf-8"))["decision"]
    chosen = decision["chosen"]
    return Tuned(dict(zip(parameters, chosen["config"], strict=True)), chosen["time_ms"], decision["verdict"], decision)


def tunable(**parameters: Sequence[Value]) -> Callable[[Callable[..., Any]], "Tunable"]:
    """Makes a function one whose keyword arguments `parameters` are tuned.

    >>> @tunable(chunk=[16, 256, 4096])
    ... def total(data, *, chunk=16):
    ...     return sum(sum(data[at : at + chunk]) for at in range(0, len(data), chunk))
    >>> total.tune(list(range(10_000)), budget="launches=30").config  # doctest: +SKIP
    {'chunk': 4096}
    >>> total([1, 2, 3])  # from now on with that chunk
    6
    """
    return lambda function: Tunable(function, parameters)


class Tunable:
    """A function that can be tuned: called, it uses the best values that are known."""

    def __init__(self, function: Callable[..., Any], parameters: Mapping[str, Sequence[Value]]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._parameters = dict(parameters)
        self.config: dict[str, Value] = {}
        """The values in use; empty before the first tuning."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function; arguments that are given come before those that were tuned."""
        return self._function(*args, **{**self.config, **kwargs})

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        # As a method. It is tuned by its class: `Class.method.tune(instance, …)`.
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str:
        # By its name, as functions are: values that were found stay in this process.
        return str(getattr(self, "__qualname__"))  # noqa: B009

    def tune(self, *args: Any, **options: Any) -> Tuned:
        """Tunes the time of a call with the arguments `args`; `options` are those of `tune`."""

        def milliseconds(**config: Value) -> float:
            begun = time.perf_counter()
            self._function(*args, **config)
            return (time.perf_counter() - begun) * 1e3

        options.setdefault("name", getattr(self._function, "__qualname__", "function"))
        tuned = tune(milliseconds, self._parameters, **options)
        self.config = tuned.config
        return tuned


def _toml(value: Value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a value of a parameter")
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        value = operator.index(value)  # of NumPy's integers, too
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"{value!r} is not a number, text or truth value")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _space(
    parameters: Mapping[str, Sequence[Value]], constraints: Sequence[str], default: Mapping[str, Value] | None
) -> str:
    lines = []
    for name, values in parameters.items():
        lines += ["[[parameter]]", f"name = {_toml(name)}", f"values = [{', '.join(map(_toml, values))}]"]
    for constraint in constraints:
        lines += ["[[constraint]]", f"when = {_toml(constraint)}"]
    if default is not None:
        lines += ["[default]", *(f"{_toml(name)} = {_toml(value)}" for name, value in default.items())]
    return "\n".join(lines) + "\n"


def _tool() -> list[str]:
    return [sys.executable, "-P", "-m", __package__ or "ut_decoding"]


def _run(args: list[str], folder: str, measure: Callable[..., float], names: list[str]) -> None:
    """Runs the tool, and measures what it asks for in this thread."""
    errors = Path(folder, "errors")
    requests, asks = os.pipe()
    answers, answer = os.pipe()
    places = {"UT_TUNE_PYTHON": sys.executable, "UT_TUNE_REQUESTS": str(asks), "UT_TUNE_ANSWERS": str(answers)}
    environment = {**os.environ, **places}
    try:
        with errors.open("w") as stderr:
            tool = subprocess.Popen(
                [*_tool(), *args, "--json", str(Path(folder, "decision.json"))],
                pass_fds=(asks, answers),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
    finally:
        os.close(asks)
        os.close(answers)
    try:
        with open(requests, encoding="utf-8") as asked, open(answer, "w", encoding="utf-8") as told:
            _say(told, "ready")
            # It ends when the tool and all that it started have ended.
            for line in asked:
                _say(told, _answer(json.loads(line), measure, names))
    except BaseException:
        tool.kill()
        raise
    finally:
        code = tool.wait()
    if code != 0:
        said = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise Error(next((line.removeprefix("error: ") for line in said if line.startswith("error: ")), "\n".join(said)))


def _say(told: Any, what: Any) -> None:
    try:
        told.write(json.dumps(what) + "\n")
        told.flush()
    except BrokenPipeError:
        # Nobody listens any more: the tool has ended, and says why.
        pass


def _answer(request: dict[str, Any], measure: Callable[..., float], names: list[str]) -> dict[str, Any]:
    config = dict(zip(names, request["config"], strict=True))
    costs = []
    for _ in range(request["launches"]):
        try:
            cost = float(measure(**config))
        except Exception as error:
            return _failed(f"{type(error).__name__}: {error}")
        if not (math.isfinite(cost) and cost > 0):
            return _failed(f"{cost} is not a positive number")
        costs.append(cost)
    return {"times": costs}


def _failed(message: str) -> dict[str, Any]:
    return {"failed": {"kind": "launch", "message": message}}
