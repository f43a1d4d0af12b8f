//! The comparison with another decoder, with a library in C that answers from a table.

#[path = "../examples/beside.rs"]
mod beside;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use beside::{Arguments, Comparison, compare};
use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder};
use ut_decoding::detector::{Boards, Geometry};
use ut_decoding::input::Events;
use ut_decoding::{BatchReport, DecodeOptions, Decoder, DetectorTables, Grouping, UtHits};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/v5").join(name)
}

/// The hits of the fixture's events: offsets, ids, and the six floats as bits in the order of `UtHits`.
fn our_hits() -> Vec<Vec<u32>> {
    let boards = Boards::read(fixture("boards.bin")).unwrap();
    let geometry = Geometry::read(fixture("geometry.bin")).unwrap();
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
    let mut events = Events::new([fixture("events.mdf")]);
    let (batch, _, max_hits) = events.next_batch(256).unwrap().unwrap();
    let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups(), max_hits);
    let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default(), CpuConfig::default()).unwrap();
    decoder.decode(batch, &mut hits, &mut BatchReport::new()).unwrap();
    let bits = |floats: &[f32]| floats.iter().map(|float| float.to_bits()).collect();
    let mut arrays = vec![hits.offsets().to_vec(), hits.id().to_vec()];
    let floats = [hits.y_begin(), hits.y_end(), hits.z_at_y_eq0(), hits.x_at_y_eq0(), hits.dx_dy(), hits.weight()];
    arrays.extend(floats.map(bits));
    arrays
}

/// Compiles a library from C source and compares it with our decoder.
fn compare_with(source: &str) -> Result<Comparison, String> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("other.so");
    std::fs::write(folder.path().join("other.c"), source).unwrap();
    let compiled = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&library)
        .arg(folder.path().join("other.c"))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"))
        .output()
        .expect("a C compiler, CC or cc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let arguments = Arguments {
        library,
        boards: fixture("boards.bin"),
        geometry: fixture("geometry.bin"),
        batch: 256.try_into().unwrap(),
        duration: 0.1,
        no_clustering: false,
        flip_from_511: false,
        files: vec![fixture("events.mdf")],
    };
    // SAFETY: the sources of these tests keep to the header.
    unsafe { compare(&arguments) }
}

/// A decoder in C that gives these arrays, whatever the batch.
fn table_decoder(arrays: &[Vec<u32>]) -> String {
    let mut source = String::from("#include <stdint.h>\n");
    for (i, array) in arrays.iter().enumerate() {
        let words: Vec<_> = array.iter().map(|word| format!("{word}u")).collect();
        writeln!(source, "static const uint32_t a{i}[] = {{{}}};", words.join(",")).unwrap();
    }
    source + include_str!("table_decoder.c")
}

/// The place of a group with several hits.
fn busy_group(arrays: &[Vec<u32>]) -> usize {
    arrays[0].windows(2).position(|ends| ends[1] - ends[0] > 1).unwrap()
}

#[test]
fn equal_hits_are_counted_and_both_decoders_timed() {
    let arrays = our_hits();
    let comparison = compare_with(&table_decoder(&arrays)).unwrap();
    assert_eq!((comparison.events, comparison.hits), (4, arrays[1].len()));
    assert!(comparison.rates.iter().all(|rates| !rates.is_empty()));
    assert!(comparison.to_string().contains("ours over the other"));
}

#[test]
fn the_order_inside_a_group_does_not_matter() {
    let mut arrays = our_hits();
    let first = arrays[0][busy_group(&arrays)] as usize;
    arrays[1..].iter_mut().for_each(|array| array.swap(first, first + 1));
    assert!(compare_with(&table_decoder(&arrays)).is_ok());
}

#[test]
fn another_bit_is_named_by_event_group_id_and_field() {
    let mut arrays = our_hits();
    arrays[5][0] ^= 1;
    let id = arrays[1][0];
    let error = compare_with(&table_decoder(&arrays)).unwrap_err();
    assert!(error.starts_with("event 0, group ") && error.contains(&format!("{id}: x_at_y_eq0 is")), "{error}");
}

#[test]
fn a_hit_in_another_group_is_named() {
    let mut arrays = our_hits();
    let group = busy_group(&arrays);
    arrays[0][group + 1] -= 1;
    let error = compare_with(&table_decoder(&arrays)).unwrap_err();
    assert!(error.starts_with(&format!("event {}, group {}: ", group / 72, group % 72)), "{error}");
}

#[test]
fn offsets_that_descend_are_refused() {
    let mut arrays = our_hits();
    arrays[0][5] = u32::MAX;
    let error = compare_with(&table_decoder(&arrays)).unwrap_err();
    assert_eq!(error, "the other decoder: the offsets do not ascend from 0 to the number of hits");
}

#[test]
fn errors_of_the_other_decoder_are_passed_on() {
    let source = "#include <stdio.h>
        void* beside_new(void* a, void* b, void* c, size_t d, size_t e, char* error, size_t n)
        { (void) a, (void) b, (void) c, (void) d, (void) e; snprintf(error, n, \"no such board\"); return NULL; }
        int beside_decode(void) { return 1; }
        void beside_free(void* decoder) { (void) decoder; }";
    assert_eq!(compare_with(source).unwrap_err(), "the other decoder: no such board");
}

#[test]
fn a_library_without_the_functions_is_refused() {
    let error = compare_with("int nothing;").unwrap_err();
    assert!(error.contains("other.so") && error.contains("beside_new"), "{error}");
}
