"""Builds the wheel: maturin's, and in it the manual pages and completions that its own command writes."""

import base64
import csv
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import maturin
from maturin import *  # noqa: F403  What else is asked of a build backend.


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_share(pathlib.Path(wheel_directory, name))
    return name


def add_share(wheel):
    """Runs `ut-decode share` of the wheel, and adds what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        package, share = os.path.join(folder, "package"), pathlib.Path(folder, "share")
        with zipfile.ZipFile(wheel) as old:
            old.extractall(package)
            entries = [(info, old.read(info)) for info in old.infolist()]
        environment = os.environ | {"PYTHONPATH": package, "UT_DECODE_CONFIG": ""}
        # -P: the folder in which a wheel is built has the package as well, without its compiled part.
        command = [sys.executable, "-P", "-m", "ut_decoding", "share", share, "--quiet"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        info = next(info for info, _ in entries if info.filename.endswith(".dist-info/RECORD"))
        data = info.filename.removesuffix(".dist-info/RECORD") + ".data/data/share/"
        paths = sorted(path for path in share.rglob("*") if path.is_file())
        files = {data + path.relative_to(share).as_posix(): path.read_bytes() for path in paths}
        rows = list(csv.reader(io.StringIO(next(content for of, content in entries if of is info).decode())))
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
            for old_info, content in entries:
                if old_info is not info:
                    new.writestr(old_info, content)
            for name, content in files.items():
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                rows.append([name, f"sha256={digest}", str(len(content))])
                entry = zipfile.ZipInfo(name)
                entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
                new.writestr(entry, content)
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            new.writestr(info, text.getvalue())
