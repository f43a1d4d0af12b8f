//! The next stage of a sequence: for extrapolated tracks, the hits of each layer whose x, at the track's y, is within a
//! window. Groups of rows in y are sorted by x at y = 0, so that a binary search in each finds the first.
//! `capi/examples/window.hpp` is the same in C++.
//!
//! `cargo run --release --example window` looks along some tracks through a synthetic event; `cargo test --example window`
//! compares with a look at every hit.
#![forbid(unsafe_code)]

use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{
    Bank, BankVersion, BatchBuilder, BatchReport, CpuConfig, CpuDecoder, DecodeOptions, Decoder, DetectorTables,
    EventBatch, EventMeta, Grouping, UtHits,
};

const N_LAYERS: usize = 4;
/// Sector groups a layer with [`Grouping::YRows`].
const GROUPS_PER_LAYER: usize = 18;

/// Limit of the spread in z of a layer's sectors, mm.
const DEPTH: f32 = 50.0;

/// Limit of the spread of dx/dy in a layer, which comes from alignment.
const SLOPES: f32 = 0.003;

/// A straight line: x = x0 + tx z, y = y0 + ty z, in mm.
#[derive(Clone, Copy, Debug)]
struct Track {
    x0: f32,
    y0: f32,
    tx: f32,
    ty: f32,
}

/// Maximum distance of a hit from a track, mm.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// In x, at the track's y.
    x: f32,
    /// Beyond the ends of the strip in y.
    y: f32,
}

impl Window {
    /// Returns true if hit `i` is near the track.
    fn has(self, hits: &UtHits, i: usize, track: Track) -> bool {
        let z = hits.z_at_y_eq0()[i];
        let (x, y) = (track.x0 + track.tx * z, track.y0 + track.ty * z);
        let ends = [hits.y_begin()[i], hits.y_end()[i]];
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let x_of_hit = hits.x_at_y_eq0()[i] + y * hits.dx_dy()[i];
        (low - self.y..=high + self.y).contains(&y) && (x - x_of_hit).abs() <= self.x
    }
}

/// The hits of an event near a track, as numbers, layer by layer; `found` is used again from track to track.
fn hits_near(hits: &UtHits, event: usize, track: Track, window: Window, found: &mut [Vec<usize>; N_LAYERS]) {
    for (layer, found) in found.iter_mut().enumerate() {
        found.clear();
        for group in layer * GROUPS_PER_LAYER..(layer + 1) * GROUPS_PER_LAYER {
            let range = hits.range(event, group);
            // z and slope of the first hit stand for those of the group.
            let Some(first) = range.clone().next() else { continue };
            let (z, slope) = (hits.z_at_y_eq0()[first], hits.dx_dy()[first]);
            let y = track.y0 + track.ty * z;
            let x = track.x0 + track.tx * z - y * slope;
            let reach = window.x + DEPTH * (track.tx.abs() + track.ty.abs()) + SLOPES * y.abs();
            let xs = &hits.x_at_y_eq0()[range];
            let begin = first + xs.partition_point(|&hit| hit < x - reach);
            let end = first + xs.partition_point(|&hit| hit <= x + reach);
            found.extend((begin..end).filter(|&i| window.has(hits, i, track)));
        }
    }
}

fn hits() -> Result<UtHits, Box<dyn std::error::Error>> {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows)?;
    let event = Generator::new(Profile::PpNominal, BankVersion::V5, 1).event(0);
    let banks = event.banks.iter().map(|(source_id, payload)| Bank {
        kind: 66,
        version: None,
        source_id: u32::from(*source_id),
        payload,
    });
    let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
    builder.push(EventMeta::default(), banks)?;
    builder.finish(&mut batch);
    let mut hits = UtHits::with_capacity(1, tables.n_groups(), batch.view().max_hits());
    let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default(), CpuConfig::default())?;
    decoder.decode(batch.view(), &mut hits, &mut BatchReport::new())?;
    Ok(hits)
}

/// Lines from near the origin into all directions that the UT covers.
fn tracks() -> impl Iterator<Item = Track> {
    let slopes = [-0.25, -0.1, -0.03, 0.01, 0.06, 0.2];
    slopes.into_iter().flat_map(move |tx| slopes.map(move |ty| Track { x0: 1.0, y0: -2.0, tx, ty: 0.9 * ty }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hits = hits()?;
    let mut found: [Vec<usize>; N_LAYERS] = Default::default();
    for track in tracks() {
        hits_near(&hits, 0, track, Window { x: 5.0, y: 1.0 }, &mut found);
        let numbers = found.each_ref().map(Vec::len);
        println!("tx {:+.2}, ty {:+.2}: {numbers:?} hits in the layers", track.tx, track.ty);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_search_finds_what_looking_at_every_hit_finds() {
        let hits = hits().expect("a synthetic event");
        let mut found: [Vec<usize>; N_LAYERS] = Default::default();
        let mut n_found = 0;
        for window in [Window { x: 0.5, y: 0.0 }, Window { x: 20.0, y: 1.0 }, Window { x: 500.0, y: 50.0 }] {
            for track in tracks() {
                hits_near(&hits, 0, track, window, &mut found);
                for (layer, found) in found.iter().enumerate() {
                    let groups = layer * GROUPS_PER_LAYER..(layer + 1) * GROUPS_PER_LAYER;
                    let all = groups.flat_map(|group| hits.range(0, group)).filter(|&i| window.has(&hits, i, track));
                    assert_eq!(*found, all.collect::<Vec<_>>(), "{track:?}, {window:?}");
                    n_found += found.len();
                }
            }
        }
        assert!(n_found > 1000, "{n_found} hits in all windows");
    }
}
