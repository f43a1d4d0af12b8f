//! The entry points of the kernels, for `nvptx64` only: every kernel, for every variant that is
//! shipped.
//!
//! # Safety
//! Preconditions of a launch, for every entry:
//! - the views that it passes are of device memory and keep the promises of `Global::new` and
//!   `GlobalMut::new`;
//! - grid, block and shared memory are as the kernel's module says ("Launch").

#[allow(unused_macros, reason = "not every unit has it")]
macro_rules! prefix_sum {
    ($variant:expr) => {
        #[unsafe(export_name = concat!("prefix_sum_tiles__", $variant))]
        unsafe extern "ptx-kernel" fn prefix_sum_tiles(
            counts: Global<'_, u32>,
            offsets: GlobalMut<'_, u32>,
            totals: GlobalMut<'_, u32>,
        ) {
            PrefixSumTiles.run(&hardware!(), &(counts, offsets, totals));
        }

        #[unsafe(export_name = concat!("prefix_sum_offsets__", $variant))]
        unsafe extern "ptx-kernel" fn prefix_sum_offsets(
            n_counts: u32,
            totals: Global<'_, u32>,
            offsets: GlobalMut<'_, u32>,
        ) {
            PrefixSumOffsets.run(&hardware!(), &(n_counts, totals, offsets));
        }
    };
}

macro_rules! hardware {
    () => {
        // SAFETY: the host launches every entry point of this crate
        // - with the grid, the block and the shared memory that the kernel's module says
        //   ("Launch");
        // - with views of memory of the device, made by the backend's checked buffers;
        // and the executor's tests find the kernels free of races and divergent collectives.
        unsafe { simt::nvptx::Hardware::new() }
    };
}

simt::declare_shared_memory!();

#[cfg(not(any(
    ptx_unit = "v4_allen_ranked",
    ptx_unit = "v4_mep_ranked",
    ptx_unit = "v5_allen_ranked",
    ptx_unit = "v5_mep_ranked"
)))]
mod allen;
#[cfg(any(
    ptx_unit = "v4_allen_ranked",
    ptx_unit = "v4_mep_ranked",
    ptx_unit = "v5_allen_ranked",
    ptx_unit = "v5_mep_ranked"
))]
mod ranked;
