//! What people and other programs write for the tuner: expressions, spaces, recordings.

use tuner::SpaceBuilder;
use tuner::chain::{ChainFile, default_of};
use tuner::expression::Expr;
use tuner::interchange;

use crate::file_of;

/// An expression over two parameters.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let named = |name: &str| ["a", "b"].iter().position(|known| *known == name).map(Expr::Slot);
    if let Ok(parsed) = Expr::parse(text, &named) {
        for values in [[0, 1], [7, -3], [i64::MAX, i64::MIN]] {
            let _ = parsed.evaluate(&values.map(Into::into));
        }
    }
}

/// Larger spaces are not built: one of 53 million combinations took longer than the 20 seconds that run.sh gives an input.
const MOST_COMBINATIONS: u64 = 1 << 16;

/// A space as TOML. Small ones are built.
pub fn space(data: &[u8]) {
    let is_small = |builder: &SpaceBuilder| builder.combinations().is_none_or(|n| n <= MOST_COMBINATIONS);
    let file = file_of("space.toml", data);
    if tuner::read_toml(&file).is_ok_and(|builder| is_small(&builder)) {
        let _ = tuner::read_space(&file);
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
    let _ = interchange::read_recording(&file);
}
