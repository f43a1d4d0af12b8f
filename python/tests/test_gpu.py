"""Hits on a GPU: on the stand-in for the driver that interprets PTX, which test.sh builds. The memory of the stand-in's device
cannot be reached from the host but by the driver's copies, as that of a GPU; so a consumer is played with ctypes."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import ut_decoding as ut

PRELUDE = """
import ctypes, gc, sys
import numpy as np
import ut_decoding as ut

driver = ctypes.CDLL("libcuda.so")
pointer = ctypes.c_void_p

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]

class Managed(ctypes.Structure):
    pass

Managed._fields_ = [("tensor", Tensor), ("context", pointer), ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed)))]

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = pointer, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"

def call(name, *args):
    code = getattr(driver, name)(*args)
    assert code == 0, (name, code)

# The consumer's own stream in the primary context.
context, mine = pointer(), pointer()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", ctypes.byref(mine), 1)

def free_bytes():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value

def managed_of(column, **options):
    capsule = column.__dlpack__(**options)
    address = api.PyCapsule_GetPointer(capsule, b"dltensor")
    return capsule, Managed.from_address(address)

def values(column):
    # What torch and cupy do: take the tensor, rename the capsule, give the tensor back when done.
    capsule, managed = managed_of(column, stream=mine.value, max_version=(1, 1))
    api.PyCapsule_SetName(capsule, USED)
    tensor = managed.tensor
    assert (tensor.device_type, tensor.device_id) == column.__dlpack_device__() == (2, 0)
    assert (tensor.ndim, tensor.bits, tensor.lanes, tensor.byte_offset, tensor.strides[0]) == (1, 32, 1, 0, 1)
    kind = {1: np.uint32, 2: np.float32}[tensor.code]
    interface = column.__cuda_array_interface__
    assert interface["shape"] == (len(column),) == (tensor.shape[0],)
    assert np.dtype(interface["typestr"]) == kind and interface["version"] == 3
    found = np.empty(tensor.shape[0], kind)
    if len(found) > 0:
        assert interface["data"] == (tensor.data, False)
        call("cuMemcpyDtoHAsync_v2", found.ctypes.data_as(pointer), ctypes.c_uint64(tensor.data),
             ctypes.c_size_t(found.nbytes), mine)
        call("cuStreamSynchronize", mine)
    managed.deleter(ctypes.byref(managed))
    del capsule
    return found

def compare(batches, hits):
    place = 0
    for batch in batches:
        part = hits.of_events(place, place + batch.n_events)
        assert len(batch) == len(part) and batch.n_groups == part.n_groups
        for name in batch.columns:
            assert values(getattr(batch, name)).tobytes() == getattr(part, name).tobytes(), name
        assert values(batch.offsets).tolist() == part.offsets.tolist()
        assert batch.event.tolist() == part.events.event.tolist() and batch.files == part.files
        counted = values(batch.report).reshape(batch.n_events, -1)
        counted[:, part.COUNTS.index("other_types")] += batch.other_banks
        counted[:, part.COUNTS.index("broken_event")] += batch.broken
        assert counted.tolist() == part.events.counts.tolist()
        place += batch.n_events
    assert place == hits.n_events
"""


@pytest.fixture(scope="module")
def on_the_stand_in(tmp_path_factory):
    """Runs a program with the stand-in for a driver, which must find nothing wrong."""
    library = os.environ.get("UT_DECODE_FAKE_CUDA")
    if library is None:
        pytest.skip("UT_DECODE_FAKE_CUDA names no stand-in for the driver; test.sh builds it")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "libcuda.so").symlink_to(pathlib.Path(library).resolve())

    def run(program, *args):
        code = PRELUDE + textwrap.dedent(program)
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, args)],
            capture_output=True,
            text=True,
            env=os.environ | {"LD_LIBRARY_PATH": str(folder)},
        )
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if line.startswith("fake cuda:")]
        assert said and all("this is not a GPU" in line or "note:" in line for line in said), said

    return run


def test_columns_have_the_bits_of_the_cpu(on_the_stand_in, tmp_path):
    path = tmp_path / "events.mdf"
    path.write_bytes(ut.generate(5, profile="pp-low"))
    on_the_stand_in(
        """
        path, tables = sys.argv[1], ut.Tables.synthetic()
        hits = ut.decode(path, tables)
        compare(ut.iterate_on_gpu(path, tables, batch=2), hits)
        compare(ut.iterate_on_gpu(path, tables, columns=["lhcb_id", "weight"], events="1,3"), ut.decode(path, tables, events="1,3"))
        assert list(ut.iterate_on_gpu(b"", tables)) == []
        """,
        path,
    )


def test_what_is_wrong_with_events_comes_with_their_hits(on_the_stand_in, fixtures):
    on_the_stand_in(
        """
        v5 = sys.argv[1]
        data, tables = v5 + "/troubles.mdf", ut.Tables(v5 + "/boards.bin", v5 + "/geometry.bin")
        hits = ut.decode(data, tables)
        assert hits.has_trouble and hits.report["broken_event"] > 0
        compare(ut.iterate_on_gpu(data, tables, batch=4), hits)
        """,
        fixtures / "v5",
    )


def test_work_is_put_on_the_given_stream_of_the_primary_context(on_the_stand_in):
    on_the_stand_in(
        """
        tables, data = ut.Tables.synthetic(), ut.generate(2, profile="pp-low")
        stream = pointer()
        call("cuStreamCreate", ctypes.byref(stream), 1)
        compare(ut.iterate_on_gpu(data, tables, stream=stream.value), ut.decode(data, tables))
        # It was borrowed: it still works, and is ours to end.
        call("cuStreamSynchronize", stream)
        call("cuStreamDestroy_v2", stream)
        for wrong in (0, 2):
            try:
                ut.iterate_on_gpu(data, tables, stream=wrong)
                raise AssertionError(wrong)
            except ValueError as error:
                assert "stream" in str(error)
        """
    )


def test_memory_is_given_back_once_by_whoever_has_it_last(on_the_stand_in):
    on_the_stand_in(
        """
        tables, data = ut.Tables.synthetic(), ut.generate(1, profile="pp-low")
        iterator = ut.iterate_on_gpu(data, tables)
        first = next(iterator)
        with_hits = free_bytes()
        expected = ut.decode(data, tables).lhcb_id
        column = first.lhcb_id
        del first, iterator
        gc.collect()
        kept = free_bytes()
        assert kept > with_hits  # the decoder has gone, the hits have not
        assert values(column).tobytes() == expected.tobytes()
        capsule, managed = managed_of(column)
        del column
        gc.collect()
        assert free_bytes() == kept
        del managed, capsule  # nobody took the tensor: the capsule gives it back
        gc.collect()
        assert free_bytes() > kept
        """
    )


def test_what_a_consumer_may_not_ask_for_is_refused(on_the_stand_in):
    on_the_stand_in(
        """
        (hits,) = ut.iterate_on_gpu(ut.generate(1, profile="pp-low"), ut.Tables.synthetic())
        for options, kind in [({"stream": 0}, ValueError), ({"copy": True}, BufferError), ({"dl_device": (1, 0)}, BufferError)]:
            try:
                hits.weight.__dlpack__(**options)
                raise AssertionError(options)
            except kind:
                pass
        managed_of(hits.weight, dl_device=(2, 0), copy=False, stream=-1)
        """
    )


def test_without_a_gpu_there_is_an_error_that_says_so(synthetic):
    with pytest.raises(ut.DecodeError, match="GPU|driver|libcuda"):
        ut.iterate_on_gpu(ut.generate(1), synthetic)


def test_errors_of_files_which_hits_on_a_gpu_do_not_carry_are_not_kept_going_over(synthetic):
    with pytest.raises(ValueError, match="keep_going"):
        ut.iterate_on_gpu(ut.generate(1), synthetic, keep_going=True)


def test_another_backend_has_no_hits_on_a_gpu(synthetic):
    with pytest.raises(ValueError, match="backend"):
        ut.iterate_on_gpu(ut.generate(1), synthetic, backend="cpu")


def test_columns_of_the_detector_do_not_come_from_a_gpu(synthetic):
    with pytest.raises(ValueError, match="columns"):
        ut.iterate_on_gpu(ut.generate(1), synthetic, columns=["layer"])
