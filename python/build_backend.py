"""Builds the wheel with maturin, and adds the manual pages and completions that its command writes."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import maturin
from maturin import *  # noqa: F403  What else is asked of a build backend.
from wheel.wheelfile import WheelFile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_share(pathlib.Path(wheel_directory, name))
    return name


def add_share(wheel):
    """Runs `ut-decode share` of the wheel, and adds what it wrote."""
    with tempfile.TemporaryDirectory() as folder, WheelFile(wheel) as old:
        package, share, made = os.path.join(folder, "package"), pathlib.Path(folder, "share"), pathlib.Path(folder, wheel.name)
        old.extractall(package)
        environment = os.environ | {"PYTHONPATH": package, "UT_DECODE_CONFIG": ""}
        # -P: the folder in which a wheel is built has the package as well, without its compiled part.
        command = [sys.executable, "-P", "-m", "ut_decoding", "share", share, "--quiet"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        # It writes the list of its files when it is closed.
        with WheelFile(made, "w") as new:
            for info in old.infolist():
                if info.filename != old.record_path:
                    new.writestr(info, old.read(info.filename))
            data = old.dist_info_path.removesuffix(".dist-info") + ".data/data/share"
            for path in sorted(path for path in share.rglob("*") if path.is_file()):
                new.write(path, f"{data}/{path.relative_to(share).as_posix()}")
        shutil.move(made, wheel)
