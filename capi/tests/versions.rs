//! Banks of another version than the tables, and tables that do not fit, are errors.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{null, null_mut};

use ut_decoding::Layout;
use ut_decoding::input::{EventBatch, Events, to_allen, to_mep};
use ut_decoding_c::{
    UT_BAD_ARGUMENT, UT_BAD_TABLES, UT_GROUPS_Y_ROWS, UT_LAYOUT_ALLEN, UT_LAYOUT_MEP, UT_OK,
    UT_TRUST_TABLES, UT_VERSION_V4, UT_VERSION_V5, UT_WRONG_VERSION, UtBatch, UtDecoder, UtHits,
    UtStatus, UtTables, ut_decoder_count, ut_decoder_free, ut_decoder_new, ut_message,
    ut_tables_free, ut_tables_from_files, ut_tables_n_groups, ut_version,
};

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(name)
        .display()
        .to_string()
}

fn message() -> String {
    // SAFETY: a string that ends with 0, of this thread.
    unsafe { CStr::from_ptr(ut_message()) }
        .to_string_lossy()
        .into_owned()
}

/// Makes tables from two files of the fixtures.
fn tables(boards: &str, geometry: &str, grouping: u32) -> Result<*mut UtTables, UtStatus> {
    let [boards, geometry] = [boards, geometry].map(|name| CString::new(fixture(name)).unwrap());
    let mut tables = null_mut();
    // SAFETY: names that end with 0, and a place of ours.
    let status = unsafe {
        ut_tables_from_files(
            boards.as_ptr(),
            geometry.as_ptr(),
            grouping,
            &raw mut tables,
        )
    };
    if status == UT_OK {
        Ok(tables)
    } else {
        Err(status)
    }
}

/// Returns status and number of hits of a batch with `version`, and with or without versions of the
/// banks.
fn count(
    decoder: *mut UtDecoder,
    n_groups: usize,
    batch: &EventBatch,
    version: u32,
    with_versions: bool,
) -> (UtStatus, usize) {
    let versions = batch.versions.as_deref().filter(|_| with_versions);
    // SAFETY: numbers and pointers, which may be null.
    let (mut there, mut hits): (UtBatch, UtHits) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    there.size = size_of::<UtBatch>();
    there.layout = if batch.layout == Layout::Mep {
        UT_LAYOUT_MEP
    } else {
        UT_LAYOUT_ALLEN
    };
    (there.n_events, there.version) = (batch.n_events as u32, version);
    (there.raw, there.raw_bytes) = (batch.raw.as_ptr(), batch.raw.len());
    (there.offsets, there.n_offsets) = (batch.offsets.as_ptr(), batch.offsets.len());
    (there.sizes, there.n_sizes) = (batch.sizes.as_ptr(), batch.sizes.len());
    (there.types, there.n_types) = (batch.types.as_ptr(), batch.types.len());
    if let Some(versions) = versions {
        (there.versions, there.n_versions) = (versions.as_ptr(), versions.len());
    }
    let mut offsets = vec![0; batch.n_events * n_groups + 1];
    (hits.size, hits.offsets, hits.n_offsets) =
        (size_of::<UtHits>(), offsets.as_mut_ptr(), offsets.len());
    // SAFETY: the decoder is ours, and the arrays have the lengths given.
    (
        unsafe { ut_decoder_count(decoder, &raw const there, &raw mut hits) },
        hits.n_hits,
    )
}

#[test]
fn banks_of_another_version_than_the_tables_are_an_error() {
    for (mine, other, mine_byte, other_byte) in [
        ("v4", "v5", UT_VERSION_V4, UT_VERSION_V5),
        ("v5", "v4", UT_VERSION_V5, UT_VERSION_V4),
    ] {
        let [boards, geometry] =
            ["boards.bin", "geometry.bin"].map(|name| format!("{mine}/{name}"));
        for (trust, guessed) in [(0, UT_WRONG_VERSION), (UT_TRUST_TABLES, UT_OK)] {
            let tables = tables(&boards, &geometry, UT_GROUPS_Y_ROWS | trust).unwrap();
            let mut decoder = null_mut();
            // SAFETY: tables and a place of ours.
            let n_groups = unsafe {
                assert_eq!(ut_decoder_new(tables, null(), &raw mut decoder), UT_OK);
                ut_tables_n_groups(tables)
            };
            let batches = |format: &str| {
                let mut events = Events::new([fixture(&format!("{format}/events.mdf"))]);
                let batch = events.next_batch(256).unwrap().unwrap().0;
                [to_allen(batch).unwrap(), to_mep(batch).unwrap().remove(0)]
            };
            for (own, foreign) in batches(mine).iter().zip(&batches(other)) {
                for (batch, version, with_versions, expected) in [
                    (own, 0, false, UT_OK),
                    (own, 0, true, UT_OK),
                    (own, mine_byte, false, UT_OK),
                    (own, other_byte, false, UT_WRONG_VERSION),
                    (foreign, other_byte, false, UT_WRONG_VERSION),
                    (foreign, 0, true, UT_WRONG_VERSION),
                    (foreign, 0, false, guessed),
                    (foreign, mine_byte, false, guessed),
                    (own, 1, false, UT_BAD_ARGUMENT),
                    (own, 5, false, UT_BAD_ARGUMENT),
                    (own, 9, false, UT_BAD_ARGUMENT),
                    (own, 255, false, UT_BAD_ARGUMENT),
                ] {
                    let case = (mine, trust, batch.layout, version, with_versions);
                    let (status, hits) = count(decoder, n_groups, batch, version, with_versions);
                    assert_eq!(status, expected, "{case:?}: {}", message());
                    assert!(hits == 0 || status == UT_OK, "{case:?}");
                }
                let mut misread = own.clone();
                misread.layout = if own.layout == Layout::Mep {
                    Layout::Allen
                } else {
                    Layout::Mep
                };
                assert_eq!(
                    count(decoder, n_groups, &misread, 0, false).0,
                    UT_BAD_ARGUMENT,
                    "{:?}",
                    own.layout
                );
                assert!(message().contains("no event has a bank"), "{}", message());
            }
            // SAFETY: both are ours, and given back once.
            unsafe {
                ut_decoder_free(decoder);
                ut_tables_free(tables);
            }
        }
    }
}

#[test]
fn boards_and_geometry_must_fit_each_other_or_be_trusted() {
    for (boards, geometry, part) in [
        (
            "v5/boards.bin",
            "v4/geometry.bin",
            "does not fit boards of format v5",
        ),
        (
            "v4/boards.bin",
            "v5/geometry.bin",
            "does not fit boards of format v4",
        ),
        (
            "v5/geometry.bin",
            "v5/boards.bin",
            "this is a geometry file",
        ),
    ] {
        assert_eq!(
            tables(boards, geometry, UT_GROUPS_Y_ROWS).err(),
            Some(UT_BAD_TABLES),
            "{boards} {geometry}"
        );
        assert!(message().contains(part), "{}", message());
    }
    let trusted = tables(
        "v5/boards.bin",
        "v4/geometry.bin",
        UT_GROUPS_Y_ROWS | UT_TRUST_TABLES,
    )
    .unwrap();
    // SAFETY: ours, and given back once.
    unsafe { ut_tables_free(trusted) };
}

#[test]
fn the_library_tells_its_version_and_commit() {
    // SAFETY: a string that ends with 0, for good.
    let text = unsafe { CStr::from_ptr(ut_version()) }.to_str().unwrap();
    assert!(
        text.starts_with(concat!(env!("CARGO_PKG_VERSION"), ", commit ")),
        "{text}"
    );
}
