//! `ut-decode`: the command-line tool of `ut-decoding`, which is [`ut_decoding::cli`].

use std::process::ExitCode;

use ut_decoding::cli::{Invocation, main as run};

fn main() -> ExitCode {
    ExitCode::from(run(&Invocation::of_this_program()))
}
