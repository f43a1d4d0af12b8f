//! What people and other programs write for the tuner: expressions, spaces, recordings.

use tuner::expression::Expr;
use tuner::interchange::{kernel_tuner, store_json, t4};
use tuner::{parse_t1, parse_toml};

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

/// A recording: T4, a cache of Kernel Tuner, an export of a store.
pub fn recording(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = t4::parse(text);
    let _ = kernel_tuner::parse(text);
    let _ = store_json::parse(text);
}
