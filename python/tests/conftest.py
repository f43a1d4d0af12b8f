"""Inputs of the tests: the fixtures of the repository, and synthetic events."""

import os
import pathlib
import pickle
import struct

import numpy as np
import pytest

import ut_decoding as ut

# `test.sh` runs the tests outside the repository.
FIXTURES = pathlib.Path(os.environ.get("UT_DECODE_FIXTURES", pathlib.Path(__file__).parents[2] / "fixtures")).resolve()


def without(hits: ut.Hits, fact: str) -> ut.Hits:
    """Returns the same hits, of events that do not tell this fact."""
    copy = pickle.loads(pickle.dumps(hits))
    values, known = copy.events._facts[fact]
    copy.events._facts[fact] = type(copy.events._facts[fact])(values, np.zeros_like(known))
    return copy


def with_odin(events: bytes, times: np.ndarray, crossings: list[int]) -> bytes:
    """Returns generated events whose ODIN banks tell the time and the number of the type of bunch crossing."""
    found = b""
    for time, crossing in zip(times.astype("<M8[us]").astype(int), crossings, strict=True):
        (size,) = struct.unpack_from("<I", events)
        event, events = bytearray(events[:size]), events[size:]
        # The bank is the first, behind a header of 48 bytes; no checksum.
        struct.pack_into("<I", event, 12, 0)
        struct.pack_into("<Q", event, 64, time)
        struct.pack_into("<I", event, 80, crossing << 12)
        found += event
    return found


@pytest.fixture(scope="session")
def fixtures() -> pathlib.Path:
    assert FIXTURES.is_dir()
    return FIXTURES


@pytest.fixture(scope="session")
def v5(fixtures: pathlib.Path) -> ut.Tables:
    return ut.Tables(fixtures / "v5/boards.bin", fixtures / "v5/geometry.bin")


@pytest.fixture(scope="session")
def v4(fixtures: pathlib.Path) -> ut.Tables:
    return ut.Tables(fixtures / "v4/boards.bin", fixtures / "v4/geometry.bin")


@pytest.fixture(scope="session")
def synthetic() -> ut.Tables:
    return ut.Tables.synthetic()


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of 700 synthetic events: several batches."""
    path = tmp_path_factory.mktemp("events") / "busy.mdf"
    path.write_bytes(ut.generate(700, profile="pp-low", seed=3))
    return str(path)


@pytest.fixture
def measured_event():
    """Returns an event that `ut.generate` did not make, as far as can be seen."""
    data = bytearray(ut.generate(1))
    # Another trigger mask than that of generated events, and no marks in the banks.
    data[20] ^= 1
    at = 20 + 4 * (data[17] & 15)
    while at < len(data):
        if data[at + 4] == 66:
            data[at + 8 + 3] = 0
        at += (int.from_bytes(data[at + 2 : at + 4], "little") + 3) // 4 * 4
    return bytes(data)
