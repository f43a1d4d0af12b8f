//! What people and other programs write for the tuner: expressions, spaces, recordings.

use tuner::chain::{ChainFile, default_of};
use tuner::expression::Expr;
use tuner::interchange::{kernel_tuner, store_json, t4};
use tuner::{parse_t1, parse_toml};

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

/// A space as TOML or T1. Small ones are built.
pub fn space(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for builder in [parse_toml(text).ok(), parse_t1(text).ok()].into_iter().flatten() {
        let _ = builder.build();
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

/// A recording: T4, a cache of Kernel Tuner, an export of a store.
pub fn recording(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for recording in [t4::parse(text), kernel_tuner::parse(text)].into_iter().flatten() {
        // What is taken is written, and read back the same.
        let mut written = Vec::new();
        t4::write(&recording, &mut written).expect("memory takes it");
        let again = t4::parse(std::str::from_utf8(&written).expect("JSON is text")).expect("what is written is read");
        assert_eq!(again.records.len(), recording.records.len());
    }
    if let Ok(export) = store_json::parse(text) {
        let _ = store_json::recording_of_export(&export, None);
    }
}
