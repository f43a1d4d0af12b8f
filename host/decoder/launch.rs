//! Launch parameters of the kernels: every number that changes how fast they are and never what they compute.
//!
//! A parameter is called `kernel.name`. All of them can be set from outside (`--set cluster.block_x=64`) and found
//! by the tuner; nothing about a launch is hard-wired elsewhere.

use simt::WARP_SIZE;
use ut_kernels::fused::{MAX_STRIPS, MIN_STRIPS, Room};

/// Most threads of a block on any device.
pub const MAX_THREADS: u32 = 1024;

/// One launch parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// `kernel.name`.
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

impl Parameter {
    /// Whether the parameter can have this value.
    pub const fn is_valid(&self, value: u32) -> bool {
        self.min <= value && value <= self.max && value.is_multiple_of(self.step)
    }
}

/// Threads of a one-dimensional block.
const fn block_x(name: &'static str, default: u32) -> Parameter {
    Parameter {
        name,
        about: "threads of a block",
        min: WARP_SIZE,
        max: MAX_THREADS,
        step: WARP_SIZE,
        default,
        candidates: &[32, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
    }
}

const N_KNOBS: usize = 12;

/// The parameters, in the order in which the kernels run.
pub const PARAMETERS: [Parameter; N_KNOBS] = [
    block_x("count.block_x", 128),
    Parameter {
        name: "count.bins",
        about: "size classes of the lane list",
        min: 8,
        max: 16,
        step: 8,
        default: 16,
        candidates: &[8, 16],
    },
    block_x("scan.block_x", 256),
    Parameter {
        name: "cluster.block_x",
        about: "threads of a block in x; x times y is a multiple of 32 and at most 1024",
        min: 1,
        max: MAX_THREADS,
        step: 1,
        default: 32,
        candidates: &[32, 64, 128, 256],
    },
    Parameter {
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
    Parameter {
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
    Parameter {
        name: "fused.strips",
        about: "strips of an event that shared memory has room for; one with more is read a second time, in windows",
        min: MIN_STRIPS,
        max: MAX_STRIPS,
        step: WARP_SIZE,
        default: 3264,
        candidates: &[1536, 2048, 2400, 3264, 4096],
    },
    Parameter {
        name: "fused.count_first",
        about: "1: a launch before counts the hits of each event; 0: events look back at those before them",
        min: 0,
        max: 1,
        step: 1,
        default: 0,
        candidates: &[0, 1],
    },
];

/// A value for every parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchParams {
    values: [u32; N_KNOBS],
}

impl Default for LaunchParams {
    fn default() -> Self {
        Self { values: PARAMETERS.map(|parameter| parameter.default) }
    }
}

/// Why a parameter cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchParamError {
    /// There is no such parameter.
    #[error("no launch parameter is called {name:?}; there are {}", names())]
    Unknown {
        /// What was requested.
        name: String,
    },
    /// The value is not one that the parameter can have.
    #[error("{} = {value}: must be a multiple of {} from {} to {}", parameter.name, parameter.step, parameter.min, parameter.max)]
    Range {
        /// The parameter.
        parameter: Parameter,
        /// What was requested.
        value: u32,
    },
    /// The assignment is not `name=number`.
    #[error("{0:?} is not of the form kernel.parameter=number")]
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
    PARAMETERS.map(|parameter| parameter.name).join(", ")
}

impl LaunchParams {
    /// The value of the parameter at place `i` of [`PARAMETERS`].
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

    /// Threads of a block of both kernels of the fused pipeline.
    pub const fn fused_block_x(&self) -> u32 {
        self.at(9)
    }
    /// What shared memory has room for in the fused kernel.
    pub const fn fused_room(&self) -> Room {
        Room { threads: self.fused_block_x(), strips: self.at(10) }
    }
    /// Whether the hits of each event are counted by a launch before.
    pub const fn fused_count_first(&self) -> bool {
        self.at(11) != 0
    }

    /// The value of a parameter, by name.
    pub fn get(&self, name: &str) -> Option<u32> {
        PARAMETERS.iter().position(|parameter| parameter.name == name).map(|i| self.at(i))
    }

    /// Every parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Parameter, u32)> {
        PARAMETERS.into_iter().zip(self.values)
    }

    /// Sets a parameter. Parameters that depend on each other are checked together by [`validate`](Self::validate).
    ///
    /// # Errors
    /// When there is no such parameter, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), LaunchParamError> {
        let i = PARAMETERS.iter().position(|parameter| parameter.name == name);
        let i = i.ok_or_else(|| LaunchParamError::Unknown { name: name.to_owned() })?;
        if !PARAMETERS[i].is_valid(value) {
            return Err(LaunchParamError::Range { parameter: PARAMETERS[i], value });
        }
        self.values[i] = value;
        Ok(())
    }

    /// Sets a parameter from `kernel.parameter=number`.
    ///
    /// # Errors
    /// As [`set`](Self::set), and when the text is not of this form.
    pub fn set_from(&mut self, assignment: &str) -> Result<(), LaunchParamError> {
        let syntax = || LaunchParamError::Syntax(assignment.to_owned());
        let (name, value) = assignment.split_once('=').ok_or_else(syntax)?;
        self.set(name.trim(), value.trim().parse().map_err(|_| syntax())?)
    }

    /// Checks the rules that join several parameters.
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
    use super::{LaunchParamError, LaunchParams, PARAMETERS};

    type Accessor = fn(&LaunchParams) -> u32;

    #[test]
    fn every_parameter_has_a_valid_default_and_valid_candidates() {
        for parameter in PARAMETERS {
            assert!(parameter.is_valid(parameter.default), "{parameter:?}");
            assert!(parameter.candidates.iter().all(|&value| parameter.is_valid(value)), "{parameter:?}");
            assert_eq!(LaunchParams::default().get(parameter.name), Some(parameter.default));
        }
        assert_eq!(LaunchParams::default().validate(), Ok(()));
    }

    #[test]
    fn a_setting_reaches_its_accessor() {
        let mut params = LaunchParams::default();
        let accessors: [(&str, Accessor, u32); 12] = [
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
            ("fused.strips", |p| p.fused_room().strips, 512),
            ("fused.count_first", |p| u32::from(p.fused_count_first()), 1),
        ];
        for (name, get, value) in accessors {
            params.set_from(&format!("{name}={value}")).unwrap();
            assert_eq!(get(&params), value, "{name}");
        }
    }

    #[test]
    fn what_is_not_a_valid_setting_is_refused_and_changes_nothing() {
        let mut params = LaunchParams::default();
        for assignment in ["count.block_x", "count.block_x=", "count.block_x=-32", "=3", ""] {
            assert!(matches!(
                params.set_from(assignment),
                Err(LaunchParamError::Syntax(_) | LaunchParamError::Unknown { .. })
            ));
        }
        for assignment in ["count.block_x=0", "count.block_x=33", "count.block_x=1056", "count.bins=12", "sort.run=0"] {
            assert!(matches!(params.set_from(assignment), Err(LaunchParamError::Range { .. })), "{assignment}");
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
