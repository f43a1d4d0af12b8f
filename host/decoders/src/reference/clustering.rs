//! The clustering of one lane, in the numbered steps of `docs/format.md`.
//!
//! The steps stay in the order and with the state of the page, even where a shorter form would do.
//! In particular a cluster that is too long goes on: its strips are added to sums that are never
//! emitted, until a strip is not the neighbour of the strip before it, or the lane ends.
//!
//! *Example.* Strips 1, 2, 3, 4 and 9 with ADC 1, 1, 1, 1 and 2, `max_size` 2 and `save_above_max`.
//! At 3, the cluster of 1 and 2 is emitted as (3, 2), and *exceeded* is set. Strips 3 and 4 are
//! added for nothing. At 9 there is a gap, and nothing is emitted. At the end 9 is emitted, as (18,
//! 2).

use ut_data::{Count, DecodeOptions, EventReport, Position};

#[derive(Clone, Copy, Debug)]
pub struct LaneHit {
    /// Charge, 0…31.
    pub adc: u32,
    /// Strip of the sector, 0…511.
    pub strip: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Σpos: Σ ADC·strip, or Σ strip.
    pub sum_position: u32,
    /// W: ΣADC, or the number of strips. Never 0.
    pub weight: u32,
    pub sum_adc: u32,
    pub n: u32,
    pub first: u32,
}

/// Returns the clusters of a lane, in the order in which they are emitted.
pub fn cluster_lane(
    hits: &[LaneHit],
    options: DecodeOptions,
    report: &mut EventReport,
) -> Vec<Cluster> {
    let mut clusters = Vec::new();
    let max_size = options.max_cluster_size().get();
    let (mut previous, mut first, mut n, mut sum_adc, mut sum_position, mut exceeded) =
        (0, 0, 0, 0, 0, false);
    // Emits the current cluster, unless it has no charge.
    let emit = |(first, n): (u32, u32),
                sum_adc: u32,
                sum_position: u32,
                clusters: &mut Vec<Cluster>,
                report: &mut EventReport| {
        if sum_adc == 0 {
            report.add(Count::ZeroChargeClusters, 1);
            return;
        }
        let weight = match options.position() {
            Position::Adc => sum_adc,
            Position::Geometric => n,
        };
        clusters.push(Cluster {
            sum_position,
            weight,
            sum_adc,
            n,
            first,
        });
    };
    for (i, hit) in hits.iter().enumerate() {
        // 1
        if !options.clustering() {
            clusters.push(Cluster {
                sum_position: hit.strip,
                weight: 1,
                sum_adc: hit.adc,
                n: 1,
                first: hit.strip,
            });
            continue;
        }
        // 2
        let new = i > 0 && previous + 1 != hit.strip;
        if new {
            if !exceeded {
                emit((first, n), sum_adc, sum_position, &mut clusters, report);
            }
            (n, sum_adc, sum_position, exceeded) = (0, 0, 0, false);
        }
        // 3
        else if n >= max_size && !exceeded {
            if options.save_above_max() {
                emit((first, n), sum_adc, sum_position, &mut clusters, report);
            }
            exceeded = true;
            report.add(Count::OversizedClusters, 1);
        }
        // 4
        if n == 0 {
            first = hit.strip;
        }
        previous = hit.strip;
        n += 1;
        sum_adc += hit.adc;
        sum_position += match options.position() {
            Position::Adc => hit.adc * hit.strip,
            Position::Geometric => hit.strip,
        };
        // 5
        if i + 1 == hits.len() && !exceeded {
            emit((first, n), sum_adc, sum_position, &mut clusters, report);
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{Cluster, LaneHit, cluster_lane};
    use ut_data::{Count, DecodeOptions, EventReport, Position};

    fn run(strips: &[(u32, u32)], options: DecodeOptions) -> (Vec<(u32, u32)>, EventReport) {
        let hits: Vec<LaneHit> = strips
            .iter()
            .map(|&(strip, adc)| LaneHit { adc, strip })
            .collect();
        let mut report = EventReport::default();
        let clusters = cluster_lane(&hits, options, &mut report);
        (
            clusters
                .iter()
                .map(
                    |&Cluster {
                         sum_position,
                         weight,
                         ..
                     }| (sum_position, weight),
                )
                .collect(),
            report,
        )
    }

    fn up_to(max: u32) -> DecodeOptions {
        DecodeOptions::default().with_max_cluster_size(NonZeroU32::new(max).expect("not 0"))
    }

    #[test]
    fn strips_become_clusters_as_the_options_say() {
        let plain = DecodeOptions::default();
        let (unclustered, geometric) = (
            plain.with_clustering(false),
            plain.with_position(Position::Geometric),
        );
        let long = [(1, 1), (2, 1), (3, 1), (4, 1), (9, 2)];
        let save = up_to(2).with_save_above_max(true);
        let (none, oversized, chargeless) = (
            None,
            Some((Count::OversizedClusters, 1)),
            Some((Count::ZeroChargeClusters, 2)),
        );
        for (strips, options, expected, counted) in [
            // Neighbours join, and gaps separate.
            (
                &[(3, 10), (4, 20), (6, 5)][..],
                plain,
                &[(3 * 10 + 4 * 20, 30), (30, 5)][..],
                none,
            ),
            (&[], plain, &[], none),
            // A strip that is repeated or descends starts a new cluster.
            (
                &[(7, 1), (7, 2), (6, 3), (7, 4)],
                plain,
                &[(7, 1), (14, 2), (6 * 3 + 7 * 4, 7)],
                none,
            ),
            // Exactly the maximum is a whole cluster, one above is dropped or cut.
            (&[(1, 1), (2, 1)], up_to(2), &[(3, 2)], none),
            (&long, up_to(2), &[(18, 2)], oversized),
            (&long, save, &[(3, 2), (18, 2)], oversized),
            // Without charge there is none, whatever the weights.
            (&[(1, 0), (2, 0), (5, 0)], plain, &[], chargeless),
            (&[(1, 0), (2, 0), (5, 0)], geometric, &[], chargeless),
            (&[(1, 31), (2, 0), (3, 1)], geometric, &[(6, 3)], none),
            (
                &[(1, 0), (2, 9), (2, 9)],
                unclustered,
                &[(1, 1), (2, 1), (2, 1)],
                none,
            ),
        ] {
            let (clusters, found) = run(strips, options);
            let mut report = EventReport::default();
            if let Some((count, n)) = counted {
                report.add(count, n);
            }
            assert_eq!(
                (&clusters[..], found),
                (expected, report),
                "{strips:?}, {options:?}"
            );
        }
    }
}
