//! Text of the help, apart from the options.

use std::ffi::OsString;

use clap::Command;

/// Beginning of both pages of help.
macro_rules! examples {
    () => {
        "\
Examples:
  # Hits of a file, with the tables of your detector
  ut-decode decode run.mdf --boards boards.bin --geometry geometry.bin -o h.csv

  # What is in there, and what is wrong with event 3?
  ut-decode inspect run.mdf
  ut-decode inspect run.mdf --event 3

  # No data at hand? Make some, and decode it
  ut-decode generate --n-events 100 -o sample
  ut-decode decode sample/events.mdf -o hits.parquet

  # How fast is this machine, and how long does a batch take?
  ut-decode throughput
  ut-decode throughput --batch 1,10,100,1000
"
    };
}

/// End of the first page of help.
pub const SHORT: &str = concat!(
    examples!(),
    "
ut-decode COMMAND --help says more about a command; ut-decode --help lists exit
codes, environment variables and settings."
);

/// End of the long help.
pub const LONG: &str = concat!(
    examples!(),
    "
  # Does AVX-512 pay here? Which batch size is best, with how many threads?
  ut-decode compare cpu.simd=avx2 cpu.simd=avx512
  ut-decode sweep --axis batch=16,256,4096 --axis threads=1,2,4

  # Find the best parameters and keep them; then ask why these
  ut-decode tune run
  ut-decode tune explain

Exit codes:
  0    done; compare: B is better than A, or the same
  1    failed: the message says why; tables: something is odd; --strict: something is wrong with the data
  2    wrong usage: the message says what to type
  3    compare: B is slower than A
  4    compare: cannot tell
  5    compare --require-better: B is the same as A
  6    compare: A and B decode to different hits
  7    decode, report: the output is written, but more of the data was lost than --max-loss allows
  130  stopped by Ctrl-C (128 + the number of the signal, as shells count)

Environment variables:
  UT_DECODE_CONFIG      settings file to use; empty: none
  UT_DECODE_TUNE_DB     store of tuned values [default: ut-decode/tune.sqlite in your
                        cache folder]
  UT_DECODE_PTXAS       NVIDIA's assembler, for kernels --measure
  NO_COLOR, CLICOLOR_FORCE  no colours, or colours where there is no terminal

Settings: so that tables need not be typed each time, ut-decode reads
ut-decode.toml in the current folder, else in ut-decode in your configuration
folder (~/.config on Linux). Options on the command line win. All keys:
  boards = \"ut_boards.bin\"        # relative to the settings file
  geometry = \"ut_geometry.bin\"
  grouping = \"y-rows\"
  flip = 511
  threads = 4
  max-loss = \"10%\"              # may be lost without exit code 7
  tune = \"first-use\"             # decode tunes a device that it meets for the first time

JSON: docs/files.md describes what a command writes with --json."
);

/// Returns the names of the subcommands that a command line calls.
pub fn called(root: &Command, args: &[OsString]) -> Vec<String> {
    let (mut command, mut names) = (root, Vec::new());
    for arg in args.iter().filter_map(|arg| arg.to_str()) {
        if let Some(called) = command.find_subcommand(arg) {
            names.push(arg.to_owned());
            command = called;
        }
    }
    names
}
