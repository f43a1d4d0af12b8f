//! Launch parameters of the kernels: every number that changes how fast they are and never what they compute.
//!
//! A knob is called `kernel.knob`. All of them can be set from outside (`--set cluster.block_x=64`) and found by the
//! tuner; nothing about a launch is hard-wired elsewhere.

use simt::WARP_SIZE;
use ut_kernels::fused::{MAX_TILE, Room};
use ut_kernels::hit_parallel::{MAX_STRIPS, MIN_STRIPS};

/// Most threads of a block on any device.
pub const MAX_THREADS: u32 = 1024;

/// One launch parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// `kernel.knob`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Smallest valid value.
    pub min: u32,
    /// Largest valid value.
    pub max: u32,
    /// Valid values are the multiples of this.
    pub step: u32,
    /// The default value.
    pub default: u32,
    /// Values worth trying.
    pub candidates: &'static [u32],
}

impl Knob {
    /// Whether the knob can have this value.
    pub const fn is_valid(&self, value: u32) -> bool {
        self.min <= value && value <= self.max && value.is_multiple_of(self.step)
    }
}

/// Threads of a one-dimensional block.
const fn block_x(name: &'static str, default: u32) -> Knob {
    Knob {
        name,
        about: "threads of a block",
        min: WARP_SIZE,
        max: MAX_THREADS,
        step: WARP_SIZE,
        default,
        candidates: &[32, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
    }
}

const N_KNOBS: usize = 14;

/// The knobs, in the order in which the kernels run.
pub const KNOBS: [Knob; N_KNOBS] = [
    block_x("count.block_x", 128),
    Knob {
        name: "count.bins",
        about: "size classes of the lane list",
        min: 8,
        max: 16,
        step: 8,
        default: 16,
        candidates: &[8, 16],
    },
    block_x("scan.block_x", 256),
    Knob {
        name: "cluster.block_x",
        about: "threads of a block in x; x times y is a multiple of 32 and at most 1024",
        min: 1,
        max: MAX_THREADS,
        step: 1,
        default: 32,
        candidates: &[32, 64, 128, 256],
    },
    Knob {
        name: "cluster.block_y",
        about: "threads of a block in y",
        min: 1,
        max: MAX_THREADS,
        step: 1,
        default: 4,
        candidates: &[1, 2, 3, 4, 6, 8],
    },
    block_x("compress.block_x", 128),
    block_x("sort.block_x", 128),
    Knob {
        name: "sort.run",
        about: "hits up to which a group is sorted by counting; longer ones are merged from runs of 32",
        min: WARP_SIZE,
        max: 4096,
        step: WARP_SIZE,
        default: 128,
        candidates: &[32, 64, 96, 128, 256, 512],
    },
    block_x("decode.block_x", 128),
    block_x("fused.block_x", 256),
    Knob {
        name: "fused.tile",
        about: "clusters of an event that are kept in shared memory; an event with more is clustered a second time",
        min: 0,
        max: MAX_TILE,
        step: 64,
        default: 1600,
        candidates: &[0, 1280, 1600, 2048, 2560, 3072],
    },
    Knob {
        name: "fused.stage",
        about: "bytes of an event that are staged in shared memory; what is beyond is read in place",
        min: 0,
        max: 64 << 10,
        step: 512,
        default: 24 << 10,
        candidates: &[0, 16 << 10, 20 << 10, 24 << 10, 28 << 10, 32 << 10],
    },
    Knob {
        name: "fused.count_first",
        about: "1: a launch before counts the hits of each event; 0: events look back at those before them",
        min: 0,
        max: 1,
        step: 1,
        default: 0,
        candidates: &[0, 1],
    },
    Knob {
        name: "fused.strips",
        about: "strips of an event that are in shared memory at a time; an event with more is read twice, part by part",
        min: MIN_STRIPS,
        max: MAX_STRIPS,
        step: WARP_SIZE,
        default: 3264,
        candidates: &[1024, 1664, 2240, 2752, 3264, 4096],
    },
];

/// A value for every knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchParams {
    values: [u32; N_KNOBS],
}

impl Default for LaunchParams {
    fn default() -> Self {
        Self { values: KNOBS.map(|knob| knob.default) }
    }
}

/// Why a knob cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchParamError {
    /// There is no such knob.
    #[error("no launch parameter is called {name:?}; there are {}", names())]
    Unknown {
        /// What was requested.
        name: String,
    },
    /// The value is not one that the knob can have.
    #[error("{} = {value}: must be a multiple of {} from {} to {}", knob.name, knob.step, knob.min, knob.max)]
    Range {
        /// The knob.
        knob: Knob,
        /// What was requested.
        value: u32,
    },
    /// The setting is not `name=number`.
    #[error("{0:?} is not of the form kernel.knob=number")]
    Syntax(String),
    /// The block of the clustering kernel is not one of full warps.
    #[error(
        "a block of {x} x {y} threads (cluster.block_x, cluster.block_y) must be a multiple of 32 and at most 1024"
    )]
    Block {
        /// `cluster.block_x`.
        x: u32,
        /// `cluster.block_y`.
        y: u32,
    },
}

fn names() -> String {
    KNOBS.map(|knob| knob.name).join(", ")
}

impl LaunchParams {
    /// The value of the knob at place `i` of [`KNOBS`].
    const fn at(&self, i: usize) -> u32 {
        self.values[i]
    }

    /// Threads of a block of `count_hits`.
    pub const fn count_block_x(&self) -> u32 {
        self.at(0)
    }
    /// Size classes of the lane list, 8 or 16.
    pub const fn count_bins(&self) -> u32 {
        self.at(1)
    }
    /// Threads of a block of both prefix-sum kernels.
    pub const fn scan_block_x(&self) -> u32 {
        self.at(2)
    }
    /// Threads of a block of `cluster_and_predecode`, x and y.
    pub const fn cluster_block(&self) -> (u32, u32) {
        (self.at(3), self.at(4))
    }
    /// Threads of a block of `compress_and_make_keys`.
    pub const fn compress_block_x(&self) -> u32 {
        self.at(5)
    }
    /// Threads of a block of `find_permutation`.
    pub const fn sort_block_x(&self) -> u32 {
        self.at(6)
    }
    /// Hits up to which a group is sorted by counting.
    pub const fn sort_run(&self) -> u32 {
        self.at(7)
    }
    /// Threads of a block of `decode_in_order`.
    pub const fn decode_block_x(&self) -> u32 {
        self.at(8)
    }

    /// Threads of a block of the one-launch kernel.
    pub const fn fused_block_x(&self) -> u32 {
        self.at(9)
    }
    /// What the one-launch kernel keeps in shared memory.
    pub const fn fused_room(&self) -> Room {
        Room { tile: self.at(10), stage: self.at(11) }
    }
    /// Whether the hits of each event are counted by a launch before.
    pub const fn fused_count_first(&self) -> bool {
        self.at(12) != 0
    }
    /// Strips of a window of the kernel for ordinary events.
    pub const fn fused_strips(&self) -> u32 {
        self.at(13)
    }

    /// The value of a knob, by name.
    pub fn get(&self, name: &str) -> Option<u32> {
        KNOBS.iter().position(|knob| knob.name == name).map(|i| self.at(i))
    }

    /// Every knob with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Knob, u32)> {
        KNOBS.into_iter().zip(self.values)
    }

    /// Sets a knob. Knobs that depend on each other are checked together by [`validate`](Self::validate).
    ///
    /// # Errors
    /// When there is no such knob, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), LaunchParamError> {
        let i = KNOBS.iter().position(|knob| knob.name == name);
        let i = i.ok_or_else(|| LaunchParamError::Unknown { name: name.to_owned() })?;
        if !KNOBS[i].is_valid(value) {
            return Err(LaunchParamError::Range { knob: KNOBS[i], value });
        }
        self.values[i] = value;
        Ok(())
    }

    /// Sets a knob from `kernel.knob=number`.
    ///
    /// # Errors
    /// As [`set`](Self::set), and when the text is not of this form.
    pub fn set_from(&mut self, setting: &str) -> Result<(), LaunchParamError> {
        let syntax = || LaunchParamError::Syntax(setting.to_owned());
        let (name, value) = setting.split_once('=').ok_or_else(syntax)?;
        self.set(name.trim(), value.trim().parse().map_err(|_| syntax())?)
    }

    /// Checks what no knob can tell alone.
    ///
    /// # Errors
    /// When the clustering kernel's block has no full warps or too many threads.
    pub const fn validate(&self) -> Result<(), LaunchParamError> {
        let (x, y) = self.cluster_block();
        // Both are at most 1024: the product fits.
        if (x * y).is_multiple_of(WARP_SIZE) && x * y <= MAX_THREADS {
            Ok(())
        } else {
            Err(LaunchParamError::Block { x, y })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOBS, LaunchParamError, LaunchParams};

    type Accessor = fn(&LaunchParams) -> u32;

    #[test]
    fn every_knob_has_a_valid_default_and_valid_candidates() {
        for knob in KNOBS {
            assert!(knob.is_valid(knob.default), "{knob:?}");
            assert!(knob.candidates.iter().all(|&value| knob.is_valid(value)), "{knob:?}");
            assert_eq!(LaunchParams::default().get(knob.name), Some(knob.default));
        }
        assert_eq!(LaunchParams::default().validate(), Ok(()));
    }

    #[test]
    fn a_setting_reaches_its_accessor() {
        let mut params = LaunchParams::default();
        let accessors: [(&str, Accessor, u32); 14] = [
            ("count.block_x", LaunchParams::count_block_x, 32),
            ("count.bins", LaunchParams::count_bins, 8),
            ("scan.block_x", LaunchParams::scan_block_x, 64),
            ("cluster.block_x", |p| p.cluster_block().0, 96),
            ("cluster.block_y", |p| p.cluster_block().1, 5),
            ("compress.block_x", LaunchParams::compress_block_x, 160),
            ("sort.block_x", LaunchParams::sort_block_x, 192),
            ("sort.run", LaunchParams::sort_run, 224),
            ("decode.block_x", LaunchParams::decode_block_x, 1024),
            ("fused.block_x", LaunchParams::fused_block_x, 96),
            ("fused.tile", |p| p.fused_room().tile, 64),
            ("fused.stage", |p| p.fused_room().stage, 512),
            ("fused.count_first", |p| u32::from(p.fused_count_first()), 1),
            ("fused.strips", LaunchParams::fused_strips, 512),
        ];
        for (name, get, value) in accessors {
            params.set_from(&format!("{name}={value}")).unwrap();
            assert_eq!(get(&params), value, "{name}");
        }
    }

    #[test]
    fn what_is_not_a_valid_setting_is_refused_and_changes_nothing() {
        let mut params = LaunchParams::default();
        for setting in ["count.block_x", "count.block_x=", "count.block_x=-32", "=3", ""] {
            assert!(matches!(
                params.set_from(setting),
                Err(LaunchParamError::Syntax(_) | LaunchParamError::Unknown { .. })
            ));
        }
        for setting in ["count.block_x=0", "count.block_x=33", "count.block_x=1056", "count.bins=12", "sort.run=0"] {
            assert!(matches!(params.set_from(setting), Err(LaunchParamError::Range { .. })), "{setting}");
        }
        assert!(params.set_from("warp.size=32").unwrap_err().to_string().contains("cluster.block_y"));
        assert_eq!(params, LaunchParams::default());
    }

    #[test]
    fn the_clustering_block_must_be_of_full_warps() {
        let mut params = LaunchParams::default();
        params.set("cluster.block_x", 16).unwrap();
        params.set("cluster.block_y", 3).unwrap();
        assert_eq!(params.validate(), Err(LaunchParamError::Block { x: 16, y: 3 }));
        params.set("cluster.block_y", 6).unwrap();
        assert_eq!(params.validate(), Ok(()));
        params.set("cluster.block_x", 1024).unwrap();
        assert!(params.validate().is_err());
    }
}
