//! `ut-decode`: the command-line tool of `ut-decoding`.

fn main() {}
