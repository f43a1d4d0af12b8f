//! Machine and program of a measurement: its numbers mean nothing without them.

use std::sync::LazyLock;

use ut_decoders::parameters::cores;

/// Machine and program.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// Model of the CPU; `None` if unknown.
    pub cpu: Option<String>,
    /// Number of hardware threads that this process may use.
    pub cores: usize,
    /// Version of the program.
    pub version: String,
    /// Commit of the sources, with `-dirty` if files differ from it; `None` if unknown, as in
    /// programs that are not optimised.
    pub commit: Option<String>,
    /// True if the compiler optimised the program.
    pub optimised: bool,
}

impl Machine {
    /// Commit of the sources; only optimised programs know it.
    pub const COMMIT: Option<&'static str> = option_env!("UT_DECODE_COMMIT");

    /// Describes this machine and this program. It is done once per process, since `/proc` is slow.
    pub fn this() -> Self {
        static THIS: LazyLock<Machine> = LazyLock::new(|| Machine {
            cpu: tuner::watch::cpu::model(),
            cores: cores(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: Machine::COMMIT.map(ToOwned::to_owned),
            optimised: !cfg!(debug_assertions),
        });
        THIS.clone()
    }
}
