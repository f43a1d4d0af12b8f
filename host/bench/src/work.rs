//! The work of the device kernels, counted by the executor: exact, and the same on every machine.
//!
//! Counts are the demands of a kernel on a GPU (sectors of memory, collectives, atomics, idle
//! lanes), not its time: other instructions are not counted.

use ut_format::report::N_COUNTS;

use super::sample::{Expected, Sample};
use super::throughput::bytes_in;
use ut_data::detector::DetectorTables;
use ut_decoders::emulated::{EmulatedConfig, EmulatedDecoder, LaunchStats};
use ut_decoders::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};

/// Size of a sector of memory in bytes.
const SECTOR: u64 = 32;

/// Quantity that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name on the command line and in files.
    pub name: &'static str,
    /// Description for the help text.
    pub about: &'static str,
    /// Function that takes the count from the statistics of a launch.
    pub of: fn(&LaunchStats) -> u64,
}

/// All metrics; less is better.
pub const METRICS: [Metric; 13] = [
    Metric {
        name: "global_sectors",
        about: "32-byte sectors touched by warps' accesses to global memory",
        of: |s| s.global_sectors,
    },
    Metric {
        name: "global_accesses",
        about: "loads, stores and atomics on global memory, one per lane",
        of: |s| s.global_loads + s.global_stores + s.global_atomics,
    },
    Metric {
        name: "warp_steps",
        about: "accesses to global memory, one per warp",
        of: |s| s.warp_steps,
    },
    Metric {
        name: "idle_lanes",
        about: "lanes that were idle in these steps of their warp",
        of: |s| 32 * s.warp_steps - s.step_lanes.min(32 * s.warp_steps),
    },
    Metric {
        name: "shared_accesses",
        about: "loads, stores and atomics on shared memory, one per lane",
        of: |s| s.shared_loads + s.shared_stores + s.shared_atomics,
    },
    Metric {
        name: "bank_conflicts",
        about: "extra turns of warps whose lanes meet in a bank of shared memory",
        of: |s| s.bank_conflicts,
    },
    Metric {
        name: "shared_atomics",
        about: "atomics on shared memory, one per lane",
        of: |s| s.shared_atomics,
    },
    Metric {
        name: "global_atomics",
        about: "atomics on global memory, one per lane",
        of: |s| s.global_atomics,
    },
    Metric {
        name: "collectives",
        about: "warp collectives, one per mask",
        of: |s| s.collectives,
    },
    Metric {
        name: "barriers",
        about: "barriers, one per block",
        of: |s| s.barriers,
    },
    Metric {
        name: "blocks",
        about: "blocks",
        of: |s| s.blocks,
    },
    Metric {
        name: "table_sectors",
        about: "sectors of tables that all events share, which a GPU has in its caches",
        of: |s| s.table_sectors,
    },
    Metric {
        name: "distinct_sectors",
        about: "different sectors that a launch reads, and that it writes, without those tables",
        of: |s| s.distinct_sectors,
    },
];

/// Finds the metric of this name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Work on a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Statistics by kernel, in the order of the first launch.
    pub kernels: Vec<(&'static str, LaunchStats)>,
    /// Sum of the statistics over all kernels.
    pub total: LaunchStats,
    /// Number of events in the sample.
    pub events: usize,
    /// Number of bytes of the batches: raw banks, and the words with their places.
    pub bytes_in: u64,
    /// Number of bytes of hits, offsets and report.
    pub bytes_out: u64,
}

impl Work {
    /// Decodes `sample` in the executor, and counts the work. The hits are compared with
    /// `expected`; the inner error is the difference.
    pub fn count(
        sample: &Sample,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: EmulatedConfig,
        expected: &Expected,
    ) -> Result<Result<Self, String>, DecodeError> {
        let mut decoder = EmulatedDecoder::new(tables, options, config)?;
        let mut work = Self::default();
        for batch in &sample.batches {
            let view = batch.view();
            let mut hits = UtHits::with_capacity(view.n_events, tables.n_groups(), view.max_hits());
            let mut report = BatchReport::new();
            decoder.decode(view, &mut hits, &mut report)?;
            if let Err(difference) =
                expected.check(work.events..work.events + view.n_events, &hits, &report)
            {
                return Ok(Err(difference));
            }
            decoder
                .stats()
                .iter()
                .for_each(|(kernel, stats)| work.add(kernel, stats));
            work.events += view.n_events;
            work.bytes_in += bytes_in(batch) as u64;
            let words_out = 7 * hits.len() + hits.offsets().len() + N_COUNTS * view.n_events;
            work.bytes_out += 4 * words_out as u64;
        }
        Ok(Ok(work))
    }

    fn add(&mut self, kernel: &'static str, stats: &LaunchStats) {
        self.total.add(stats);
        match self.kernels.iter_mut().find(|(name, _)| *name == kernel) {
            Some((_, sum)) => sum.add(stats),
            None => self.kernels.push((kernel, *stats)),
        }
    }

    /// Returns the traffic between global memory and the multiprocessors, without the tables that
    /// all events share, relative to the bytes in and out.
    pub fn traffic(&self) -> f64 {
        let moved = SECTOR
            * self
                .total
                .global_sectors
                .saturating_sub(self.total.table_sectors);
        moved as f64 / (self.bytes_in + self.bytes_out).max(1) as f64
    }

    /// Returns the [`traffic`](Self::traffic) with each sector counted once per launch if it is
    /// read, and once if it is written. This is the traffic of the device's memory if caches keep
    /// each sector until its last use: a lower bound, since caches are small.
    pub fn distinct_traffic(&self) -> f64 {
        (SECTOR * self.total.distinct_sectors) as f64
            / (self.bytes_in + self.bytes_out).max(1) as f64
    }

    /// Returns the mean count per event.
    pub fn per_event(&self, metric: &Metric) -> f64 {
        self.of_event((metric.of)(&self.total))
    }

    /// Returns the mean per event of a sum over the sample.
    pub fn of_event(&self, sum: u64) -> f64 {
        sum as f64 / self.events.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_of_the_same_kernel_add_up_and_means_are_over_events() {
        let stats = LaunchStats {
            collectives: 3,
            global_loads: 5,
            global_stores: 1,
            ..LaunchStats::default()
        };
        let mut work = Work {
            events: 2,
            ..Work::default()
        };
        work.add("scan", &stats);
        work.add("sort", &stats);
        work.add("scan", &stats);
        assert_eq!(
            work.kernels
                .iter()
                .map(|(name, s)| (*name, s.collectives))
                .collect::<Vec<_>>(),
            [("scan", 6), ("sort", 3)]
        );
        assert_eq!(work.per_event(metric("collectives").unwrap()), 4.5);
        assert_eq!(work.per_event(metric("global_accesses").unwrap()), 9.0);
    }

    #[test]
    fn traffic_is_bytes_moved_per_byte_in_and_out_without_tables() {
        let total = LaunchStats {
            global_sectors: 10,
            table_sectors: 4,
            distinct_sectors: 3,
            ..LaunchStats::default()
        };
        let work = Work {
            total,
            bytes_in: 64,
            bytes_out: 32,
            ..Work::default()
        };
        assert_eq!((work.traffic(), work.distinct_traffic()), (2.0, 1.0));
        assert_eq!(
            (
                Work::default().traffic(),
                Work::default().distinct_traffic()
            ),
            (0.0, 0.0)
        );
    }

    #[test]
    fn idle_lanes_are_lanes_without_a_step() {
        let stats = LaunchStats {
            warp_steps: 2,
            step_lanes: 33,
            ..LaunchStats::default()
        };
        assert_eq!((metric("idle_lanes").unwrap().of)(&stats), 31);
        assert!(metric("seconds").is_none());
    }
}
