//! Files of boards and geometry: whatever passes the check must be safe to decode with.

use std::sync::OnceLock;

use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::Mask;
use ut_decoding::{
    Bank, BankVersion, BatchBuilder, BatchReport, Boards, DecodeOptions, Decoder, DetectorTables, EventBatch,
    EventMeta, Geometry, Grouping, UtHits, synth,
};

use crate::Bytes;

/// The files of a sound detector, by format and version of the geometry: made once.
fn sound(version: BankVersion, geometry_version: u16) -> (Vec<u8>, Vec<u8>) {
    static FILES: [OnceLock<(Vec<u8>, Vec<u8>)>; 4] = [const { OnceLock::new() }; 4];
    let make = || {
        let (boards, geometry) = synth::detector(version, geometry_version);
        (boards.to_bytes(), geometry.to_bytes())
    };
    let which = usize::from(version == BankVersion::V4) * 2 + usize::from(geometry_version);
    FILES[which].get_or_init(make).clone()
}

/// Changes of words in sound tables, and whole files.
pub fn tables(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.u8();
    let version = if choice & 1 == 0 { BankVersion::V5 } else { BankVersion::V4 };
    let grouping = if choice & 2 == 0 { Grouping::YRows } else { Grouping::UniqueX };
    if choice & 4 != 0 {
        let _ = Boards::parse(bytes.0, "boards");
        let _ = Geometry::parse(bytes.0, "geometry");
        return;
    }
    let (mut boards, mut geometry) = sound(version, u16::from(choice >> 3 & 1));
    while !bytes.is_empty() {
        let which = bytes.u8();
        let file = if which & 1 == 0 { &mut boards } else { &mut geometry };
        let place = usize::from(bytes.u16()) * 4;
        let word = bytes.take(4);
        if which & 2 != 0 {
            file.truncate(place.min(file.len()));
        } else if let Some(there) = file.get_mut(place..place + word.len()) {
            there.copy_from_slice(word);
        }
    }
    let (Ok(boards), Ok(geometry)) = (Boards::parse(&boards, "boards"), Geometry::parse(&geometry, "geometry")) else {
        return;
    };
    let Ok(tables) = DetectorTables::new(boards, geometry, grouping) else { return };
    let payload: Vec<u8> = (0..u8::MAX).cycle().skip(usize::from(choice)).take(512).map(|byte| byte & 0x1f).collect();
    let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
    let banks = (0..tables.boards().n_boards().min(8) as u32).map(|board| Bank {
        kind: 66,
        version: None,
        source_id: board,
        payload: &payload,
    });
    if builder.push(EventMeta::default(), banks).is_err() {
        return;
    }
    builder.finish(&mut batch);
    let options = DecodeOptions::default();
    let Ok(cpu) = CpuDecoder::new(&tables, options, CpuConfig { threads: 1, ..CpuConfig::default() }) else { return };
    let mut results = Vec::new();
    for mut decoder in [Box::new(ReferenceDecoder::new(&tables, options)) as Box<dyn Decoder>, Box::new(cpu)] {
        let mut hits = UtHits::with_capacity(1, tables.n_groups(), batch.view().max_hits());
        let mut report = BatchReport::new();
        decoder.decode(batch.view(), &mut hits, &mut report).expect("there is room");
        results.push((hits, report.events));
    }
    assert!(results[0] == results[1], "the CPU decoder differs from the reference");
}

/// A mask for the synthetic detector.
pub fn mask(data: &[u8]) {
    static TABLES: std::sync::LazyLock<DetectorTables> = std::sync::LazyLock::new(|| {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        DetectorTables::new(boards, geometry, Grouping::YRows).expect("the synthetic detector is sound")
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(mask) = Mask::parse(text, &TABLES) {
        // Only some channels are asked: all would take long.
        let listed = (0..1 << 21).step_by(61).filter(|channel| mask.contains(3 << 28 | channel)).count();
        assert!(listed as u64 <= mask.n_strips(), "strips of the mask");
    }
}
