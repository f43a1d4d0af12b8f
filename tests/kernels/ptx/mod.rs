//! The committed PTX: its text, and its results on an interpreter.

mod allen;
mod counts;
mod decoder;
mod ranked;
mod text;

use crate::suite::events::{Event, VERSIONS, generated_as, tables_in};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::synth::Profile;
use ut_decoding::{Backend, DetectorTables, Grouping};

/// Returns tables and synthetic events of both formats, v4 first.
fn detectors(grouping: Grouping) -> impl Iterator<Item = (DetectorTables, Vec<Event>)> {
    let of = move |version| {
        (
            tables_in(version, grouping),
            generated_as(Profile::PpNominal, version, 1, 3),
        )
    };
    VERSIONS.into_iter().map(of)
}

/// Returns the default parameters with these assignments.
fn params(assignments: &[&str]) -> Parameters {
    let mut params = Parameters::default();
    for assignment in assignments {
        params
            .set_from(Backend::Emulated, assignment)
            .expect("a valid assignment");
    }
    params
}
