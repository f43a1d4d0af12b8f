"""The command `ut-decode`: the tool's own main, run in this process as if it were nothing but the tool."""

import os
import signal
import sys


def main() -> int:
    """Runs the tool with the arguments of this process; returns its exit code."""
    # Until the tool handles it, Ctrl-C ends the process without a traceback. What is ignored, as under nohup, stays so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A file that the tool opens must not become its standard output.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    from ._native import run_tool

    # -P: a folder ut_decoding in the working directory is not this package.
    return run_tool([sys.executable, "-P", "-m", __package__], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
