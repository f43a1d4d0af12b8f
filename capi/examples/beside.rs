//! Compares another decoder with ours: whether it makes the same hits, and how fast both are on one thread.
//!
//! The other decoder is a shared library with the functions of `examples/beside.h`, which says what they must do. Both decode the same batches in Allen layout, in turns
//! of a tenth of a second, timed by the CPU time of the thread, so that other programs on the machine do not count.
//!
//! ```text
//! cargo run --release -p ut-decoding-c --example beside -- --library other.so \
//!     --boards fixtures/v5/boards.bin --geometry fixtures/v5/geometry.bin fixtures/v5/events.mdf
//! ```

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use clap::Parser;
use libloading::Library;
use ut_decoding::input::{Events, to_allen};
use ut_decoding::{
    BatchReport, Boards, CpuConfig, CpuDecoder, DecodeOptions, Decoder as _, DetectorTables, EventBatch, Flip,
    Geometry, Grouping, UtHits,
};

/// Seconds of CPU time after which the other decoder takes its turn.
const TURN: f64 = 0.1;

/// Compares another decoder with ours.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Shared library of the other decoder.
    #[arg(long)]
    pub library: PathBuf,
    /// Boards file.
    #[arg(long)]
    pub boards: PathBuf,
    /// Geometry file.
    #[arg(long)]
    pub geometry: PathBuf,
    /// Events in a batch.
    #[arg(long, default_value = "256")]
    pub batch: NonZeroUsize,
    /// Seconds of CPU time to measure for; 0 compares the hits only.
    #[arg(long, default_value_t = 3.0)]
    pub duration: f64,
    /// Make every strip a hit.
    #[arg(long)]
    pub no_clustering: bool,
    /// Count the strips of flipped sectors from 511 instead of 512.
    #[arg(long)]
    pub flip_from_511: bool,
    /// Files with events.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// What the comparison found. The hits were the same, or there would have been an error.
#[derive(Debug)]
pub struct Comparison {
    /// Events compared.
    pub events: usize,
    /// Hits compared.
    pub hits: usize,
    /// Events in a second of CPU time, one entry a turn: ours, the other's.
    pub rates: [Vec<f64>; 2],
}

/// The handle of the other decoder.
enum Handle {}

/// `BesideOptions` of the header.
#[repr(C)]
struct OtherOptions {
    no_clustering: u32,
    flip_from_511: u32,
}

/// `BesideBatch` of the header.
#[repr(C)]
struct OtherBatch {
    n_events: usize,
    raw: *const u8,
    raw_bytes: usize,
    offsets: *const u32,
    n_offsets: usize,
    sizes: *const u32,
    n_sizes: usize,
    types: *const u32,
    n_types: usize,
    versions: *const u32,
    n_versions: usize,
}

/// `BesideHits` of the header.
#[repr(C)]
struct OtherHits {
    n_hits: usize,
    n_groups: usize,
    offsets: *const u32,
    floats: [*const f32; 6],
    id: *const u32,
}

type New = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const OtherOptions,
    usize,
    usize,
    *mut c_char,
    usize,
) -> *mut Handle;
type Decode = unsafe extern "C" fn(*mut Handle, *const OtherBatch, *mut OtherHits, *mut c_char, usize) -> c_int;
type Free = unsafe extern "C" fn(*mut Handle);

/// The functions of one decoder.
#[derive(Clone, Copy)]
struct Functions {
    new: New,
    decode: Decode,
    free: Free,
}

impl Functions {
    /// Looks the functions up in a library.
    ///
    /// # Safety
    /// - The library's functions are those of `examples/beside.h`, and do what it says.
    /// - They are not called after the library has been unloaded.
    unsafe fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the symbols have the types of the header, and are not used beyond the library, both by this
        // function's preconditions.
        unsafe {
            Ok(Self {
                new: *library.get::<New>(c"beside_new")?,
                decode: *library.get::<Decode>(c"beside_decode")?,
                free: *library.get::<Free>(c"beside_free")?,
            })
        }
    }
}

/// The other decoder.
struct Other {
    functions: Functions,
    handle: NonNull<Handle>,
}

impl Other {
    /// # Safety
    /// - `functions` do what `examples/beside.h` says, for as long as the decoder lives.
    unsafe fn new(functions: Functions, arguments: &Arguments, max_hits: usize) -> Result<Self, String> {
        let options = OtherOptions {
            no_clustering: arguments.no_clustering.into(),
            flip_from_511: arguments.flip_from_511.into(),
        };
        let path = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string());
        let (boards, geometry) = (path(&arguments.boards)?, path(&arguments.geometry)?);
        let mut error = [0; 512];
        // SAFETY:
        // - the functions keep the header's promises, by this function's precondition;
        // - the names are strings ended by 0, the options are a `BesideOptions`, and the buffer has the length given.
        let decoder = unsafe {
            (functions.new)(
                boards.as_ptr(),
                geometry.as_ptr(),
                &raw const options,
                arguments.batch.get(),
                max_hits,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        match NonNull::new(decoder) {
            Some(handle) => Ok(Self { functions, handle }),
            None => Err(format!("the other decoder: {}", text(&mut error))),
        }
    }

    fn decode(&mut self, batch: &EventBatch) -> Result<Hits<'_>, String> {
        let versions = batch.versions.as_deref().unwrap_or_default();
        let input = OtherBatch {
            n_events: batch.n_events,
            raw: batch.raw.as_ptr(),
            raw_bytes: batch.raw.len(),
            offsets: batch.offsets.as_ptr(),
            n_offsets: batch.offsets.len(),
            sizes: batch.sizes.as_ptr(),
            n_sizes: batch.sizes.len(),
            types: batch.types.as_ptr(),
            n_types: batch.types.len(),
            versions: if batch.versions.is_some() { versions.as_ptr() } else { std::ptr::null() },
            n_versions: versions.len(),
        };
        // SAFETY: the fields are integers and pointers, which may be 0 and null.
        let mut hits: OtherHits = unsafe { std::mem::zeroed() };
        let mut error = [0; 512];
        // SAFETY:
        // - the functions keep the header's promises: `new` was told so;
        // - the decoder came from `beside_new` and is not freed; `&mut self` keeps other calls away;
        // - every pointer of the batch is null or has the length beside it, and the batch lives until the call returns;
        // - the hits and the buffer are writable.
        let status = unsafe {
            (self.functions.decode)(
                self.handle.as_ptr(),
                &raw const input,
                &raw mut hits,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        if status != 0 {
            return Err(format!("the other decoder: {}", text(&mut error)));
        }
        // SAFETY: the header says that the arrays have these lengths and stay until the decoder's next call, which
        // cannot come while its borrow lives. An empty array may be null, which `slice` takes.
        let hits = unsafe {
            Hits {
                n_groups: hits.n_groups,
                offsets: slice(hits.offsets, batch.n_events * hits.n_groups + 1),
                id: slice(hits.id, hits.n_hits),
                floats: hits.floats.map(|array| slice(array, hits.n_hits)),
            }
        };
        let ends = [hits.offsets.first(), hits.offsets.last()].map(|end| end.copied().unwrap_or_default());
        if ends != [0, hits.id.len() as u32] || !hits.offsets.is_sorted() {
            return Err("the other decoder: the offsets do not ascend from 0 to the number of hits".to_owned());
        }
        Ok(hits)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // SAFETY: the decoder came from the `beside_new` of the same library, and is freed only here.
        unsafe { (self.functions.free)(self.handle.as_ptr()) };
    }
}

/// Our decoder, with its hits.
struct Ours {
    decoder: CpuDecoder,
    hits: UtHits,
    report: BatchReport,
}

impl Ours {
    fn new(arguments: &Arguments, max_hits: usize) -> Result<Self, Box<dyn Error>> {
        let (boards, geometry) = (Boards::read(&arguments.boards)?, Geometry::read(&arguments.geometry)?);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows)?;
        let options = DecodeOptions {
            clustering: !arguments.no_clustering,
            flip: if arguments.flip_from_511 { Flip::From511 } else { Flip::From512 },
            ..DecodeOptions::default()
        };
        let config = CpuConfig { threads: 1, ..CpuConfig::default() };
        Ok(Self {
            decoder: CpuDecoder::new(&tables, options, config)?,
            hits: UtHits::with_capacity(arguments.batch.get(), tables.n_groups(), max_hits),
            report: BatchReport::new(),
        })
    }

    fn decode(&mut self, batch: &EventBatch) -> Result<Hits<'_>, String> {
        let Self { decoder, hits, report } = self;
        decoder.decode(batch.view(), hits, report).map_err(|error| format!("our decoder: {error}"))?;
        Ok(Hits {
            n_groups: hits.n_groups(),
            offsets: hits.offsets(),
            id: hits.id(),
            floats: [hits.y_begin(), hits.y_end(), hits.z_at_y_eq0(), hits.x_at_y_eq0(), hits.dx_dy(), hits.weight()],
        })
    }
}

/// The hits of a batch.
struct Hits<'a> {
    n_groups: usize,
    offsets: &'a [u32],
    id: &'a [u32],
    floats: [&'a [f32]; 6],
}

const FLOATS: [&str; 6] = ["y_begin", "y_end", "z_at_y_eq0", "x_at_y_eq0", "dx_dy", "weight"];

impl Hits<'_> {
    /// Id and bits of the hits of a group, in an order that both decoders share.
    fn group(&self, place: usize) -> Vec<(u32, [u32; 6])> {
        let hits = self.offsets[place] as usize..self.offsets[place + 1] as usize;
        let mut hits: Vec<_> = hits.map(|i| (self.id[i], self.floats.map(|array| array[i].to_bits()))).collect();
        hits.sort_unstable();
        hits
    }
}

/// # Safety
/// - `array` is null, or aligned and readable for `len` elements while the slice is used.
unsafe fn slice<'a, T>(array: *const T, len: usize) -> &'a [T] {
    if array.is_null() {
        return &[];
    }
    // SAFETY: not null; aligned and readable by this function's precondition.
    unsafe { std::slice::from_raw_parts(array, len) }
}

/// The message in a buffer that a decoder was given.
fn text(error: &mut [c_char]) -> String {
    // Ended here, whatever the other library wrote.
    let bytes: Vec<u8> = error.iter().map(|&c| c as u8).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The first difference between the hits of a batch whose first event has the number `first`.
fn difference(ours: &Hits<'_>, others: &Hits<'_>, first: usize) -> Option<String> {
    if ours.n_groups != others.n_groups {
        return Some(format!("{} groups an event in ours, {} in the other", ours.n_groups, others.n_groups));
    }
    (0..ours.offsets.len() - 1).find_map(|place| {
        let (a, b) = (ours.group(place), others.group(place));
        if a == b {
            return None;
        }
        let at = format!("event {}, group {}", first + place / ours.n_groups, place % ours.n_groups);
        if a.len() != b.len() {
            return Some(format!("{at}: {} hits in ours, {} in the other", a.len(), b.len()));
        }
        let (a, b) = a.into_iter().zip(b).find(|(a, b)| a != b)?;
        if a.0 != b.0 {
            return Some(format!("{at}: LHCbID {} in ours, {} in the other", a.0, b.0));
        }
        let field = (0..FLOATS.len()).find(|&field| a.1[field] != b.1[field])?;
        let [x, y] = [a, b].map(|hit| f32::from_bits(hit.1[field]));
        Some(format!("{at}, LHCbID {}: {} is {x} in ours, {y} in the other", a.0, FLOATS[field]))
    })
}

/// CPU time of this thread, in seconds.
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Decodes all batches until a turn is over; events in a second of CPU time.
fn turn(batches: &[EventBatch], mut decode: impl FnMut(&EventBatch) -> Result<(), String>) -> Result<f64, String> {
    let begin = cpu_time();
    let mut events = 0;
    loop {
        for batch in batches {
            decode(batch)?;
            events += batch.n_events;
        }
        let spent = cpu_time() - begin;
        if spent >= TURN {
            return Ok(events as f64 / spent);
        }
    }
}

/// Compares the hits, then the speeds.
///
/// # Errors
/// When a file, the library or a decoder fails, and when the hits differ: then the first difference.
///
/// # Safety
/// - The library's functions are those of `examples/beside.h`, and do what it says.
pub unsafe fn compare(arguments: &Arguments) -> Result<Comparison, String> {
    let mut events = Events::new(&arguments.files);
    let mut batches = Vec::new();
    while let Some((batch, ..)) = events.next_batch(arguments.batch.get()).map_err(|error| error.to_string())? {
        batches.push(to_allen(batch).map_err(|error| error.to_string())?);
    }
    let max_hits = batches.iter().map(|batch| batch.view().max_hits()).max().ok_or("the files have no events")?;

    let cannot = |error: libloading::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{}: {error}{cause}", arguments.library.display())
    };
    // SAFETY: whether the library's initialisation is sound is for the user to know, who named it.
    let library = unsafe { Library::new(&arguments.library) }.map_err(cannot)?;
    // SAFETY: by this function's precondition; `other` is dropped before the library, in the reverse of this order.
    let functions = unsafe { Functions::of(&library) }.map_err(cannot)?;
    // SAFETY: the library keeps to the header, by this function's precondition, and outlives the decoder.
    let mut other = unsafe { Other::new(functions, arguments, max_hits) }?;
    let mut ours = Ours::new(arguments, max_hits).map_err(|error| format!("our decoder: {error}"))?;

    let mut comparison = Comparison { events: 0, hits: 0, rates: [Vec::new(), Vec::new()] };
    for batch in &batches {
        let (a, b) = (ours.decode(batch)?, other.decode(batch)?);
        if let Some(difference) = difference(&a, &b, comparison.events) {
            return Err(difference);
        }
        comparison.events += batch.n_events;
        comparison.hits += a.id.len();
    }
    let begin = cpu_time();
    while cpu_time() - begin < arguments.duration {
        comparison.rates[0].push(turn(&batches, |batch| ours.decode(batch).map(|_| ()))?);
        comparison.rates[1].push(turn(&batches, |batch| other.decode(batch).map(|_| ()))?);
    }
    Ok(comparison)
}

/// Quartiles and median.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, hits, rates: [ours, other] } = self;
        writeln!(f, "hits    {hits} in {events} events, the same bits in both")?;
        if ours.is_empty() {
            return Ok(());
        }
        for (name, rates) in [("ours", ours), ("other", other)] {
            let [low, median, high] = quartiles(rates.clone()).map(|rate| rate / 1e3);
            writeln!(f, "{name:<7} {median:.1} k events in a second of CPU time ({low:.1} to {high:.1})")?;
        }
        let [low, median, high] = quartiles(ours.iter().zip(other).map(|(a, b)| a / b).collect());
        writeln!(f, "ratio   {median:.2} ({low:.2} to {high:.2}), ours over the other; {} turns each", ours.len())
    }
}

#[allow(dead_code, reason = "tests/beside.rs takes this file as a module")]
fn main() -> Result<(), String> {
    // SAFETY: whether the library keeps to the header is for the user to know, who named it.
    print!("{}", unsafe { compare(&Arguments::parse()) }?);
    Ok(())
}
