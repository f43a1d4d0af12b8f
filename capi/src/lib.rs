//! C interface of `ut-decoding`; `include/ut_decoding.h` documents it for its users.
//!
//! Nothing may unwind into the caller: every entry catches panics and reports them as errors.

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_int};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, OnceLock};

use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder, memory_of_threads};
use ut_decoding::decoder::{Count, DecodeError, EventReport};
use ut_decoding::detector::{Boards, Geometry};
use ut_decoding::{
    BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, Flip, Grouping, Layout, Position, UtHits, memory,
};

/// Threads of a decoder, as for the tool.
const MAX_THREADS: usize = 1024;

/// A decoder with its output buffers.
pub struct UtDecoder {
    decoder: CpuDecoder,
    hits: UtHits,
    report: BatchReport,
    max_events: usize,
}

/// `UtOptions` of the header: zeros are the production values.
#[repr(C)]
#[expect(missing_docs, reason = "the header documents the fields")]
#[derive(Clone, Copy, Debug, Default)]
pub struct COptions {
    pub no_clustering: u32,
    pub geometric: u32,
    pub max_cluster_size: u32,
    pub save_above_max: u32,
    pub flip_from_511: u32,
    pub unique_x: u32,
    pub threads: u32,
}

impl COptions {
    fn options(&self) -> DecodeOptions {
        let default = DecodeOptions::default();
        DecodeOptions {
            clustering: self.no_clustering == 0,
            position: if self.geometric == 0 { Position::Adc } else { Position::Geometric },
            max_cluster_size: NonZeroU32::new(self.max_cluster_size).unwrap_or(default.max_cluster_size),
            save_above_max: self.save_above_max != 0,
            flip: if self.flip_from_511 == 0 { Flip::From512 } else { Flip::From511 },
        }
    }

    const fn grouping(&self) -> Grouping {
        if self.unique_x == 0 { Grouping::YRows } else { Grouping::UniqueX }
    }
}

/// `UtBatch` of the header.
#[repr(C)]
#[expect(missing_docs, reason = "the header documents the fields")]
#[derive(Clone, Copy, Debug)]
pub struct CBatch {
    pub layout: u32,
    pub n_events: u32,
    pub raw: *const u8,
    pub raw_bytes: usize,
    pub offsets: *const u32,
    pub n_offsets: usize,
    pub sizes: *const u32,
    pub n_sizes: usize,
    pub types: *const u32,
    pub n_types: usize,
    pub versions: *const u32,
    pub n_versions: usize,
}

/// `UtHits` of the header.
#[repr(C)]
#[expect(missing_docs, reason = "the header documents the fields")]
#[derive(Clone, Copy, Debug)]
pub struct CHits {
    pub n_hits: usize,
    pub n_groups: usize,
    pub offsets: *const u32,
    pub y_begin: *const f32,
    pub y_end: *const f32,
    pub z_at_y_eq0: *const f32,
    pub x_at_y_eq0: *const f32,
    pub dx_dy: *const f32,
    pub weight: *const f32,
    pub id: *const u32,
    pub report: *const u32,
}

/// The slice that a pointer and a length of the caller make; an empty one for a null pointer.
///
/// # Safety
/// - `pointer` is null, or aligned for `T` and readable for `len` elements as long as the slice is used.
unsafe fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for alignment and length.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

/// Copies `message` to the caller's buffer, cut to its size and ended by 0.
///
/// # Safety
/// - `error` is null, or writable for `error_bytes` bytes.
unsafe fn write_error(message: &str, error: *mut c_char, error_bytes: usize) {
    if error.is_null() || error_bytes == 0 {
        return;
    }
    let len = message.len().min(error_bytes - 1);
    // SAFETY: `len` + 1 bytes are within the caller's buffer, which is no part of a Rust string.
    unsafe {
        std::ptr::copy_nonoverlapping(message.as_ptr(), error.cast(), len);
        *error.add(len) = 0;
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref().cloned());
    format!("internal error: {}", text.unwrap_or_default())
}

/// Runs `body`; whatever goes wrong becomes the error's text, and only that.
fn guarded<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static SILENCE: Once = Once::new();
    // The library has a Rust runtime of its own: no other code's panics are silenced.
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panic_message(panic.as_ref())))
}

fn make(
    [boards, geometry]: [&CStr; 2],
    options: COptions,
    max_events: usize,
    max_hits: usize,
) -> Result<UtDecoder, String> {
    let path = |name: &CStr| name.to_str().map(str::to_owned).map_err(|e| format!("file name: {e}"));
    let boards = Boards::read(path(boards)?).map_err(|e| e.to_string())?;
    let geometry = Geometry::read(path(geometry)?).map_err(|e| e.to_string())?;
    let tables = DetectorTables::new(boards, geometry, options.grouping()).map_err(|e| e.to_string())?;
    let threads = options.threads as usize;
    if threads > MAX_THREADS {
        return Err(format!("{threads} threads: at most {MAX_THREADS} can be asked for"));
    }
    memory::check(format!("{threads} threads"), memory_of_threads(threads)).map_err(|e| e.to_string())?;
    let report_bytes = (max_events as u64).saturating_mul(size_of::<EventReport>() as u64);
    memory::check(format!("the report of {max_events} events"), report_bytes).map_err(|e| e.to_string())?;
    let hits = UtHits::try_with_capacity(max_events, tables.n_groups(), max_hits).map_err(|e| e.to_string())?;
    let config = CpuConfig { threads, ..CpuConfig::default() };
    Ok(UtDecoder {
        decoder: CpuDecoder::new(&tables, options.options(), config).map_err(|e| e.to_string())?,
        hits,
        report: BatchReport::new(),
        max_events,
    })
}

/// Makes a decoder; see the header.
///
/// # Safety
/// - `boards` and `geometry` are null or strings ended by 0.
/// - `options` is null or points to a `UtOptions`.
/// - `error` is null or writable for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_new(
    boards: *const c_char,
    geometry: *const c_char,
    options: *const COptions,
    max_events: usize,
    max_hits: usize,
    error: *mut c_char,
    error_bytes: usize,
) -> *mut UtDecoder {
    let result = guarded(|| {
        if boards.is_null() || geometry.is_null() {
            return Err("no boards file or no geometry file given".to_owned());
        }
        // SAFETY: not null, and strings by this function's precondition.
        let names = unsafe { [CStr::from_ptr(boards), CStr::from_ptr(geometry)] };
        // SAFETY: null or valid by this function's precondition.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        make(names, options, max_events, max_hits)
    });
    match result {
        Ok(decoder) => Box::into_raw(Box::new(decoder)),
        Err(message) => {
            // SAFETY: by this function's precondition.
            unsafe { write_error(&message, error, error_bytes) };
            std::ptr::null_mut()
        }
    }
}

/// Decodes a batch; see the header.
///
/// # Safety
/// - `decoder` is null or comes from [`ut_decoder_new`], is not freed, and no other call uses it meanwhile.
/// - `batch` is null, or points to a `UtBatch` whose pointers are each null or aligned and readable for the length
///   beside them during the call.
/// - `hits` is null or points to a writable `UtHits`; `error` is null or writable for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_decode(
    decoder: *mut UtDecoder,
    batch: *const CBatch,
    hits: *mut CHits,
    error: *mut c_char,
    error_bytes: usize,
) -> c_int {
    let result = guarded(|| {
        // SAFETY: null or valid by this function's preconditions, and no other call uses the decoder.
        let (Some(this), Some(batch), false) = (unsafe { (decoder.as_mut(), batch.as_ref(), hits.is_null()) }) else {
            return Err("decoder, batch or hits is a null pointer".to_owned());
        };
        let layout = match batch.layout {
            0 => Layout::Allen,
            1 => Layout::Mep,
            other => return Err(format!("layout {other}: it is 0 (Allen) or 1 (MEP)")),
        };
        let events = batch.n_events as usize;
        if events > this.max_events {
            // The report has a row an event, and would grow first.
            return Err(DecodeError::TooManyEvents { events, capacity: this.max_events }.to_string());
        }
        // SAFETY: each pointer is null or readable for the length beside it, by this function's precondition.
        let view = unsafe {
            BatchView {
                layout,
                n_events: events,
                raw: slice(batch.raw, batch.raw_bytes),
                offsets: slice(batch.offsets, batch.n_offsets),
                sizes: slice(batch.sizes, batch.n_sizes),
                types: slice(batch.types, batch.n_types),
                versions: (!batch.versions.is_null()).then(|| slice(batch.versions, batch.n_versions)),
                meta: &[],
            }
        };
        this.decoder.decode(view, &mut this.hits, &mut this.report).map_err(|e| e.to_string())?;
        let out = CHits {
            n_hits: this.hits.len(),
            n_groups: this.hits.n_groups(),
            offsets: this.hits.offsets().as_ptr(),
            y_begin: this.hits.y_begin().as_ptr(),
            y_end: this.hits.y_end().as_ptr(),
            z_at_y_eq0: this.hits.z_at_y_eq0().as_ptr(),
            x_at_y_eq0: this.hits.x_at_y_eq0().as_ptr(),
            dx_dy: this.hits.dx_dy().as_ptr(),
            weight: this.hits.weight().as_ptr(),
            id: this.hits.id().as_ptr(),
            // `EventReport` is `repr(transparent)` over its counters.
            report: this.report.events.as_ptr().cast(),
        };
        // SAFETY: not null, and writable by this function's precondition.
        unsafe { hits.write(out) };
        Ok(())
    });
    match result {
        Ok(()) => 0,
        Err(message) => {
            // SAFETY: by this function's precondition.
            unsafe { write_error(&message, error, error_bytes) };
            1
        }
    }
}

/// Frees a decoder; see the header.
///
/// # Safety
/// - `decoder` is null, or comes from [`ut_decoder_new`] and is no longer used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_decoder_free(decoder: *mut UtDecoder) {
    if !decoder.is_null() {
        // SAFETY: it came from `Box::into_raw` in `ut_decoder_new`, and is freed once by this function's precondition.
        drop(unsafe { Box::from_raw(decoder) });
    }
}

/// The name of a counter; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn ut_count_name(count: usize) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| Count::ALL.iter().filter_map(|count| CString::new(count.name()).ok()).collect());
    names.get(count).map_or(std::ptr::null(), |name| name.as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, CString};
    use std::ptr;

    use super::{CBatch, COptions, UtDecoder, ut_decoder_decode, ut_decoder_free, ut_decoder_new};

    /// A decoder of the v5 fixtures, or the error.
    fn make(threads: u32, max_events: usize, max_hits: usize) -> Result<*mut UtDecoder, String> {
        let file = |name: &str| CString::new(format!("{}/../fixtures/v5/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let options = COptions { threads, ..COptions::default() };
        let mut error = [0; 256];
        let (boards, geometry) = (file("boards.bin"), file("geometry.bin"));
        // SAFETY:
        // - both names are strings ended by 0, and `options` is a `UtOptions`;
        // - `error` has the size that is given.
        let decoder = unsafe {
            ut_decoder_new(
                boards.as_ptr(),
                geometry.as_ptr(),
                &raw const options,
                max_events,
                max_hits,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        // SAFETY: the buffer is ended by 0: it was zeros, and a message is always ended.
        let message = unsafe { CStr::from_ptr(error.as_ptr()) };
        if decoder.is_null() { Err(message.to_str().unwrap().to_owned()) } else { Ok(decoder) }
    }

    #[test]
    fn capacities_and_threads_that_cannot_be_are_refused_with_the_figure() {
        for (threads, events, hits, figure) in [
            (4_000_000_000, 1, 1, "4000000000"),
            (1, 1, 1 << 40, "1099511627776"),
            (1, 1, usize::MAX, "18446744073709551615"),
            (1, 1 << 40, 1, "1099511627776"),
            (1, usize::MAX, 1, "18446744073709551615"),
        ] {
            let error = make(threads, events, hits).unwrap_err();
            assert!(error.contains(figure), "{error}");
        }
    }

    #[test]
    fn a_batch_of_more_events_than_declared_is_refused() {
        let decoder = make(1, 2, 1000).unwrap();
        let batch = CBatch {
            layout: 0,
            n_events: u32::MAX,
            raw: ptr::null(),
            raw_bytes: 0,
            offsets: ptr::null(),
            n_offsets: 0,
            sizes: ptr::null(),
            n_sizes: 0,
            types: ptr::null(),
            n_types: 0,
            versions: ptr::null(),
            n_versions: 0,
        };
        let mut hits = std::mem::MaybeUninit::uninit();
        // SAFETY:
        // - the decoder was made above, is not freed yet, and is used here alone;
        // - the batch's pointers are null, and `hits` can be written to;
        // - no error buffer is given.
        let failed = unsafe { ut_decoder_decode(decoder, &raw const batch, hits.as_mut_ptr(), ptr::null_mut(), 0) };
        assert_eq!(failed, 1);
        // SAFETY: the decoder was made above and is not used after this.
        unsafe { ut_decoder_free(decoder) };
    }
}
