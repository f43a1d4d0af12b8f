//! The kernels as PTX, compiled from this crate's sources and embedded, and figures about them.
//!
//! A GPU's driver compiles PTX for the GPU when it is loaded, so that a stable Rust compiler and a
//! driver suffice. Each text starts with comments that name the compiler, its flags, and a hash of
//! the sources.

mod units;

pub use units::{MAX_REGISTERS, UNITS};

macro_rules! texts {
    ($($(#[$about:meta])* $name:ident $file:literal;)*) => {
        $($(#[$about])* pub const $name: &str = include_str!(concat!("../../ptx/", $file));)*
    };
}

texts! {
    /// Allen's pipeline for v4 banks in Allen layout.
    V4_ALLEN "v4_allen.ptx";
    /// Allen's pipeline for v4 banks in MEP layout.
    V4_MEP "v4_mep.ptx";
    /// Allen's pipeline for v5 banks in Allen layout.
    V5_ALLEN "v5_allen.ptx";
    /// Allen's pipeline for v5 banks in MEP layout.
    V5_MEP "v5_mep.ptx";
    /// The steps of [`Switches::ladder`](crate::switches::Switches::ladder) for v5 banks in Allen
    /// layout.
    V5_ALLEN_LADDER "v5_allen_ladder.ptx";
    /// The ranked pipeline for v4 banks in Allen layout.
    V4_ALLEN_RANKED "v4_allen_ranked.ptx";
    /// The ranked pipeline for v4 banks in MEP layout.
    V4_MEP_RANKED "v4_mep_ranked.ptx";
    /// The ranked pipeline for v5 banks in Allen layout.
    V5_ALLEN_RANKED "v5_allen_ranked.ptx";
    /// The ranked pipeline for v5 banks in MEP layout.
    V5_MEP_RANKED "v5_mep_ranked.ptx";
    /// Registers, memory and spills of each kernel on each architecture, by ptxas, as JSON.
    RESOURCES "resources.json";
    /// Instructions and memory sectors of each kernel in a mean event, counted by an interpreter,
    /// as JSON.
    COUNTS "counts.json";
}
