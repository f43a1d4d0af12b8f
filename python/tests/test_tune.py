"""Functions are tuned by the tool's tuner, in the process that calls them."""

import json
import pickle

import numpy as np
import pytest

import ut_decoding as ut

SPACE = {"tile": [4, 7, 8, 16, 24, 32], "mode": ["a", "b"]}


def cost(tile, mode):
    if tile == 7:
        raise ValueError("no sevens")
    return abs(tile - 24) + 1 + (mode == "b")


def test_the_best_values_are_found_by_name_and_what_fails_costs_only_itself():
    tuned = ut.tune(cost, SPACE, default={"tile": 4, "mode": "a"})
    assert (tuned.config, tuned.cost) == ({"tile": 24, "mode": "a"}, 1.0)
    assert tuned.verdict.startswith("better than the default") and tuned.decision["failed"] == 2


def test_constraints_hold_and_a_budget_bounds_all_calls():
    calls = []

    def counted(**config):
        calls.append(config)
        return cost(**config)

    tuned = ut.tune(counted, SPACE, constraints=["tile != 24"], budget="launches=90")
    assert tuned.config["tile"] in (16, 32) and len(calls) <= 90
    assert all(config["tile"] != 24 for config in calls)


def test_what_was_measured_is_kept_under_its_name(tmp_path):
    ut.tune(cost, SPACE, store=tmp_path / "store.sqlite", report=tmp_path / "report", name="a {name}")
    assert (tmp_path / "store.sqlite").exists()
    report = json.loads((tmp_path / "report" / "run-1.json").read_text())
    assert 'a {name}' in report["report"]["title"]


@pytest.mark.parametrize(
    ("parameters", "options", "said"),
    [
        ({"tile": [4]}, {}, "missing 1 required"),
        ({"tile": [7], "mode": ["a"]}, {}, "no sevens"),
        ({"tile": [8], "mode": ["a"]}, {"constraints": ["tyle > 3"]}, "tyle"),
        ({"tile": [8], "mode": ["a"]}, {"budget": "lunches=3"}, "lunches"),
    ],
)
def test_what_cannot_be_tuned_is_said(parameters, options, said):
    with pytest.raises(ut.Error, match=said):
        ut.tune(cost, parameters, **options)


def test_integers_of_numpy_are_values():
    tuned = ut.tune(cost, {"tile": np.array([4, 24]), "mode": ["a"]})
    assert tuned.config == {"tile": 24, "mode": "a"}


def test_an_interrupt_ends_it():
    def interrupted(tile):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ut.tune(interrupted, {"tile": [1, 2]})


def test_a_function_that_was_tuned_uses_what_was_found():
    @ut.tunable(chunk=[1, 4096])
    def total(data, *, chunk=1):
        """Sums."""
        return sum(sum(data[at : at + chunk]) for at in range(0, len(data), chunk))

    assert (total.config, total([1, 2, 3]), total.__doc__) == ({}, 6, "Sums.")
    total.tune(list(range(20_000)), default={"chunk": 1}, budget="launches=80")
    assert total.config == {"chunk": 4096} and total([1, 2, 3]) == total([1, 2, 3], chunk=1) == 6


class Scaled:
    factor = 3

    @ut.tunable(chunk=[1, 2])
    def times(self, value, *, chunk=1):
        return self.factor * value


def test_a_method_is_tunable_and_functions_are_pickled_by_name():
    assert Scaled().times(2) == 6
    Scaled.times.tune(Scaled(), 2, budget="launches=20")
    assert Scaled().times(2, chunk=2) == 6 and Scaled.times.config.keys() == {"chunk"}
    assert pickle.loads(pickle.dumps(Scaled.times)) is Scaled.times
