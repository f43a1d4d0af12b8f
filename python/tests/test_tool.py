"""The command `ut-decode` of the wheel behaves as the program does."""

import base64
import hashlib
import importlib.metadata
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import ut_decoding as ut

TOOL = [os.path.join(os.path.dirname(sys.executable), "ut-decode")]


def run(*args, **options):
    return subprocess.run([*TOOL, *map(str, args)], capture_output=True, text=True, **options)


def test_results_go_to_standard_output_and_errors_to_standard_error():
    version = run("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith(f"ut-decode {ut.__version__}, commit ")
    wrong = run("decode", "--no-such-option")
    assert (wrong.returncode, wrong.stdout) == (2, "") and "--no-such-option" in wrong.stderr
    absent = run("decode", "no-such.mdf")
    assert absent.returncode == 1 and "no-such.mdf" in absent.stderr and "Traceback" not in absent.stderr


def test_manual_pages_and_completions_match_the_command(tmp_path):
    written = run("share", tmp_path, check=True)
    assert "files written" in written.stdout
    names = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert {"_ut-decode", "ut-decode", "ut-decode.fish", "ut-decode.1", "ut-decode-decode.1"} <= {name.name for name in names}
    for name in names:
        assert (pathlib.Path(sys.prefix, "share") / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_every_file_of_the_wheel_is_in_its_record():
    distribution = importlib.metadata.distribution("ut-decoding")
    listed = {str(file): file.hash for file in distribution.files if "__pycache__" not in file.parts}
    for name in ("ut_decoding/plot.py", "ut_decoding/_native.abi3.so"):
        digest = hashlib.sha256(pathlib.Path(distribution.locate_file(name)).read_bytes()).digest()
        assert listed[name].value == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert any(name.endswith("share/man/man1/ut-decode.1") for name in listed)


def test_a_closed_pipe_is_no_error():
    head = subprocess.run(f"{TOOL[0]} --help | head -1", shell=True, capture_output=True, text=True)
    assert head.stderr == "" and head.stdout.startswith("Decodes raw banks")


def test_closed_streams_do_not_reach_the_output(busy, tmp_path):
    path = tmp_path / "hits.csv"
    done = subprocess.run(f"{TOOL[0]} decode {busy} -o {path} >&- 2>&-", shell=True)
    assert done.returncode == 0
    assert path.read_text().startswith("event,group,") and "clusters" not in path.read_text()


def test_ctrl_c_ends_the_tool_like_a_signal_and_leaves_no_file(tmp_path):
    pipe, out = tmp_path / "pipe", tmp_path / "hits.csv"
    os.mkfifo(pipe)
    tables = tmp_path / "tables"
    run("generate", "--events", 1, "-o", tables, check=True)
    command = [
        *TOOL,
        "decode",
        pipe,
        "--boards",
        tables / "boards.bin",
        "--geometry",
        tables / "geometry.bin",
        "-o",
        out,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with open(pipe, "wb") as writer:
        writer.write((tables / "events.mdf").read_bytes())
        writer.flush()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "tables"]


def test_the_tool_starts_itself_again_for_its_measurements(tmp_path):
    # A folder of that name in the working directory is not the package.
    (tmp_path / "ut_decoding").mkdir()
    (tmp_path / "ut_decoding/__init__.py").write_text("raise SystemExit('the wrong package')")
    store = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = run("tune", "run", "--help", cwd=tmp_path, env=store)
    assert done.returncode == 0
    again = [sys.executable, "-P", "-m", "ut_decoding", "--version"]
    assert subprocess.run(again, cwd=tmp_path, capture_output=True, text=True).stdout.startswith("ut-decode ")


def test_the_command_does_not_wait_for_numpy():
    code = "import sys, ut_decoding._tool; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", ["no_such", "Option"])
def test_unknown_names_are_attribute_errors(name):
    with pytest.raises(AttributeError, match=name):
        getattr(ut, name)
    assert {"decode", "plot", "__version__"} <= set(dir(ut))
