//! What people and other programs write for the tuner: expressions, spaces, recordings.

use tuner::SpaceBuilder;
use tuner::chain::{ChainFile, default_of};
use tuner::expression::Expr;
use tuner::interchange::{self, kernel_tuner, t4};
use tuner::replay::Recording;

use crate::file_of;

/// An expression over two parameters.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(parsed) = Expr::parse(text) else { return };
    let _ = parsed.names();
    let names = ["a".to_owned(), "b".to_owned()];
    if let Ok(program) = tuner::expression::Program::compile(&parsed, &names, &[]) {
        for values in [[0, 1], [7, -3], [i64::MAX, i64::MIN]] {
            let _ = program.evaluate(&values.map(Into::into));
        }
    }
}

/// Larger spaces are not built: one of 53 million combinations took longer than the 20 seconds that run.sh gives an input.
const MOST_COMBINATIONS: u64 = 1 << 16;

/// A space as TOML or T1. Small ones are built.
pub fn space(data: &[u8]) {
    let is_small = |builder: &SpaceBuilder| builder.combinations().is_none_or(|n| n <= MOST_COMBINATIONS);
    let file = file_of("space.toml", data);
    if tuner::read_toml(&file).is_ok_and(|builder| is_small(&builder)) {
        let _ = tuner::read_space(&file);
    }
    match tuner::parse_t1(std::str::from_utf8(data).unwrap_or_default()) {
        Ok(builder) if is_small(&builder) => drop(builder.build()),
        _ => {}
    }
}

/// A chain of kernels as TOML.
pub fn chain(data: &[u8]) {
    let Ok(file) = ChainFile::read(&file_of("chain.toml", data)) else { return };
    let space = crate::seeds::space();
    for kernel in &file.kernels {
        let _ = default_of("x", &space, None, &kernel.default);
    }
    let _ = default_of("x", &space, Some(&space.config(0)), &file.default);
}

/// A recording: CSV, T4, a cache of Kernel Tuner, an export of a store; of each, also one that ends early.
pub fn recording(data: &[u8]) {
    let file = file_of("recording", data);
    let _ = interchange::read_import(&file);
    let Ok(recording) = interchange::read_recording(&file) else { return };
    // What is taken is written, and read back the same.
    for (write, parse) in [(t4::write as Write, t4::parse as Parse), (kernel_tuner::write, kernel_tuner::parse)] {
        let mut written = Vec::new();
        if let Err(error) = write(&recording, &mut written) {
            // A cache has its results beside its parameters, and no room for parameters of the same name.
            assert!(error.to_string().contains("and so is a result in Kernel Tuner's caches"), "{error}");
            continue;
        }
        let again = parse(std::str::from_utf8(&written).expect("JSON is text")).expect("what is written is read");
        assert_eq!(again.records.len(), recording.records.len());
    }
}

type Write = fn(&Recording, &mut Vec<u8>) -> std::io::Result<()>;
type Parse = fn(&str) -> Result<Recording, String>;
