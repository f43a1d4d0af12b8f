//! Decoding on the CPU.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, TryLockError};

use ut_decoding::decoder::cpu::memory_of_threads;
use ut_decoding::{
    BankVersion, BatchView, CpuDecoder, DecodeError, DecodeOptions, EventReport, Flip, Position,
    memory,
};

use crate::batch::{UtBatch, read_batch};
use crate::hits::{CallerHits, UtHits, read_hits, write_n_hits};
use crate::memory::{SizedStruct, check_apart, check_place, flag, read_struct, reference};
use crate::status::{Failure, UT_INTERNAL, UT_NO_MEMORY, UtStatus, guarded};
use crate::tables::UtTables;

/// Rules by which banks become hits. Set everything to 0, then `size`: these are the production
/// values of 2026. Banks of format v4 come clustered: nothing here changes their hits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtOptions {
    /// sizeof(UtOptions).
    pub size: usize,
    /// 1: every strip is a hit.
    pub no_clustering: u32,
    /// 1: a cluster's position is the plain mean of its strips; 0: the mean weighted by ADC counts.
    pub geometric: u32,
    /// Maximum number of strips of a cluster; 0: 128.
    pub max_cluster_size: u32,
    /// 1: clusters above the maximum are cut to their first strips; 0: they are dropped.
    pub save_above_max: u32,
    /// Number from which strips of flipped sectors count: 511 (Allen since v7r9; also 0), or 512.
    /// v4 banks have none.
    pub flip_from: u32,
    /// Reserved: 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, the size first, and otherwise numbers.
unsafe impl SizedStruct for UtOptions {
    const NAME: &'static str = "UtOptions";
}

/// Reads the options, or takes the production values if `options` is null.
///
/// # Safety
/// - `options` is null, or a struct as [`read_struct`] reads it.
pub(crate) unsafe fn read_options(options: *const UtOptions) -> Result<DecodeOptions, Failure> {
    if options.is_null() {
        return Ok(DecodeOptions::default());
    }
    // SAFETY: as the caller says.
    let options = unsafe { read_struct(options) }?;
    let default = DecodeOptions::default();
    let geometric = flag("UtOptions.geometric", options.geometric)?;
    let flip = match options.flip_from {
        0 => default.flip(),
        511 => Flip::From511,
        512 => Flip::From512,
        n => {
            return Err(Failure::argument(format!(
                "UtOptions.flip_from is {n}: it must be 511, 512, or 0 for 511"
            )));
        }
    };
    if options.reserved != 0 {
        return Err(Failure::argument("UtOptions.reserved is not 0"));
    }
    let most = NonZeroU32::new(options.max_cluster_size);
    Ok(default
        .with_clustering(!flag("UtOptions.no_clustering", options.no_clustering)?)
        .with_position(if geometric {
            Position::Geometric
        } else {
            Position::Adc
        })
        .with_max_cluster_size(most.unwrap_or(default.max_cluster_size()))
        .with_save_above_max(flag("UtOptions.save_above_max", options.save_above_max)?)
        .with_flip(flip))
}

/// A decoder for CPUs, which works in the calling thread. One thread at a time may use it: a second
/// one gets UT_BAD_ARGUMENT. A program with several threads makes one decoder per thread. It takes
/// 4 MB, for any batch; and if the caller wants no report, 60 bytes for each event of the largest
/// batch.
pub struct UtDecoder {
    state: Mutex<DecoderState>,
}

const _: () = assert!(size_of::<EventReport>() == 60, "the header says so");

struct DecoderState {
    decoder: CpuDecoder,
    reports: Vec<EventReport>,
}

impl DecoderState {
    /// Returns the caller's report, or one that is thrown away.
    fn report<'a>(
        &'a mut self,
        report: Option<&'a mut [EventReport]>,
        events: usize,
    ) -> Result<(&'a mut CpuDecoder, &'a mut [EventReport]), DecodeError> {
        let Self {
            decoder, reports, ..
        } = self;
        if let Some(report) = report {
            return Ok((decoder, report));
        }
        if events > reports.len() {
            let bytes = events * size_of::<EventReport>();
            let failed = |_| DecodeError::NoMemory { events, bytes };
            reports
                .try_reserve_exact(events - reports.len())
                .map_err(failed)?;
            reports.resize(events, EventReport::default());
        }
        Ok((decoder, &mut reports[..events]))
    }
}

/// # Safety
/// - `decoder` is null, or was made by [`ut_decoder_new`] and is not freed as long as this is used.
unsafe fn state<'a>(decoder: *const UtDecoder) -> Result<MutexGuard<'a, DecoderState>, Failure> {
    // SAFETY: as the caller says.
    let decoder = unsafe { reference("decoder", decoder) }?;
    match decoder.state.try_lock() {
        Ok(state) => Ok(state),
        // The next batch overwrites everything that a panic may have left.
        Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::argument("another thread is using the decoder"))
        }
    }
}

/// Makes a decoder for the tables, which may be freed afterwards. `options` may be NULL.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not freed.
/// - `options` is NULL, or points to a UtOptions whose `size` is set.
/// - `decoder` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_new(
    tables: *const UtTables,
    options: *const UtOptions,
    decoder: *mut *mut UtDecoder,
) -> UtStatus {
    guarded(|| {
        check_place("decoder", decoder)?;
        // SAFETY: as the caller says.
        let tables = unsafe { reference("tables", tables) }?;
        // SAFETY: the same.
        let options = unsafe { read_options(options) }?;
        memory::check("a decoder", memory_of_threads(1))
            .map_err(|error| Failure::new(UT_NO_MEMORY, error.to_string()))?;
        let made = CpuDecoder::new(&tables.tables, options);
        let state = Mutex::new(DecoderState {
            decoder: made,
            reports: Vec::new(),
        });
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe { decoder.write(Box::into_raw(Box::new(UtDecoder { state }))) };
        Ok(())
    })
}

/// Writes the number of hits of a batch to `hits->n_hits`, and `hits->offsets` and, if wanted,
/// `hits->report`, as ut_decoder_decode does. For programs that allocate exactly as much as they
/// need.
///
/// # Safety
/// - As ut_decoder_decode, but that the arrays of hits are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_count(
    decoder: *mut UtDecoder,
    batch: *const UtBatch,
    hits: *mut UtHits,
) -> UtStatus {
    // SAFETY: as the caller says.
    guarded(|| unsafe { work(decoder, batch, hits, false) })
}

/// Decodes a batch into the arrays of `hits`. After the first batches it allocates nothing more.
///
/// # Safety
/// - `decoder` is NULL, or was made by ut_decoder_new and is not freed.
/// - `batch` is NULL, or a UtBatch whose `size` is set, and whose pointers are NULL or readable for
///   their lengths; nothing writes there during the call.
/// - `hits` is NULL, or a UtHits whose `size` is set, and whose pointers are NULL or can be read
///   and written for their lengths; nothing else uses them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_decode(
    decoder: *mut UtDecoder,
    batch: *const UtBatch,
    hits: *mut UtHits,
) -> UtStatus {
    // SAFETY: as the caller says.
    guarded(|| unsafe { work(decoder, batch, hits, true) })
}

/// # Safety
/// - As [`ut_decoder_decode`].
unsafe fn work(
    decoder: *const UtDecoder,
    batch: *const UtBatch,
    hits: *mut UtHits,
    with_hits: bool,
) -> Result<(), Failure> {
    // This comes first, because it sets `n_hits` to 0, which must hold after any error.
    // SAFETY: as the caller says.
    let there = unsafe { read_hits(hits) }?;
    // SAFETY: the same.
    let (mut state, arrays) = unsafe { (state(decoder)?, CallerHits::of(&there, with_hits)?) };
    // SAFETY: the same.
    let (batch, read) = unsafe { read_batch(batch) }?;
    check_apart(&arrays.places(), &read)?;
    check_room(&state.decoder, &batch, &arrays)?;
    // SAFETY: nothing else uses the arrays during this call, as the caller says, and they do not
    // overlap, as checked above.
    let (mut out, report) = unsafe { arrays.slices() };
    let (decoder, report) = state.report(report, batch.n_events)?;
    let n_hits = if with_hits {
        decoder.decode_into(batch, &mut out, report)?
    } else {
        decoder.count(batch, out.offsets, report)?
    };
    let written = out
        .offsets
        .get(batch.n_events * decoder.n_groups())
        .copied();
    if written != Some(n_hits as u32) {
        return Err(Failure::new(
            UT_INTERNAL,
            format!("{n_hits} hits, but the offsets end at {written:?}"),
        ));
    }
    // SAFETY: `read_hits` has read it.
    unsafe { write_n_hits(hits, n_hits) };
    Ok(())
}

/// Checks clusters against the banks' format, and room for the events before memory is allocated
/// for them.
fn check_room(
    decoder: &CpuDecoder,
    batch: &BatchView<'_>,
    arrays: &CallerHits,
) -> Result<(), Failure> {
    if arrays.has_clusters() && decoder.version() == BankVersion::V4 {
        return Err(Failure::argument(
            "UtHits.clusters is wanted, but v4 banks do not say which strips made a cluster",
        ));
    }
    let capacity = arrays.max_events(decoder.n_groups());
    if batch.n_events > capacity {
        return Err(DecodeError::TooManyEvents {
            events: batch.n_events,
            capacity,
        }
        .into());
    }
    Ok(())
}

/// Frees a decoder.
///
/// # Safety
/// - `decoder` is NULL, or was made by ut_decoder_new and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_free(decoder: *mut UtDecoder) {
    if !decoder.is_null() {
        // SAFETY: it came from `Box::into_raw` in `ut_decoder_new`, and is freed once, as the
        // caller says.
        drop(unsafe { Box::from_raw(decoder) });
    }
}
