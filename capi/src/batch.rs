//! A batch of raw banks in the caller's memory.

use ut_decoding::{BankVersion, BatchView, DecodeError, Layout};

use crate::memory::{CallerArray, Place, SizedStruct, flag, read_struct};
use crate::status::Failure;

/// Event by event: the block of event `e` begins at `raw + offsets[e]`.
pub const UT_LAYOUT_ALLEN: u32 = 0;
/// Bank by bank, as the event builder delivers: the payload of bank `b` of event `e` is at
/// `raw + offsets[2 + n_banks * (1 + e) + b]`.
pub const UT_LAYOUT_MEP: u32 = 1;

/// Version byte of banks of format v4: simulation up to 2021.
pub const UT_VERSION_V4: u32 = 3;
/// Version byte of banks of format v5: Run 3.
pub const UT_VERSION_V5: u32 = 4;

const _: () = assert!(
    UT_VERSION_V4 == BankVersion::V4.byte() as u32
        && UT_VERSION_V5 == BankVersion::V5.byte() as u32
);

/// Raw banks in memory of the caller. The contents are not trusted: each number is checked against
/// the lengths given here before it is used; a contradiction costs only its bank or event, and is
/// counted. Set everything to 0, then `size`.
///
/// All numbers are little endian. Allen layout: at `raw + offsets[e]` begin `u32 n_banks; u32
/// rel[n_banks + 1];`, and after them the banks, each at its `rel`, counted from there: a `u32`
/// sourceID, then the payload, padded to 4 bytes. MEP layout: `offsets` are n_banks, 0, n_banks
/// sourceIDs, then per event n_banks offsets of payloads in `raw`. docs/format.md has the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtBatch {
    /// sizeof(UtBatch).
    pub size: usize,
    /// UT_LAYOUT_ALLEN or UT_LAYOUT_MEP.
    pub layout: u32,
    /// Number of events from `first_event` on, selected or not. Results have a place for each.
    pub n_events: u32,
    /// Index of the first event to decode. Other than 0 to decode an interval of the events in the
    /// arrays.
    pub first_event: u32,
    /// 1: decodes only the events in `selected`; the others have no hits and no counts. 0: decodes
    /// all.
    pub only_selected: u32,
    /// Events to decode, counted from `first_event`, each below `n_events`, in any order;
    /// repetitions do no harm.
    pub selected: *const u32,
    /// Number of words of `selected`; may be 0.
    pub n_selected: usize,
    /// Bytes that `offsets` point into, at any address.
    pub raw: *const u8,
    /// Number of bytes of `raw`; on a GPU less than 4 GiB.
    pub raw_bytes: usize,
    /// Positions of events or payloads, as above.
    pub offsets: *const u32,
    /// Number of words of `offsets`, at least one for each event up to the last (Allen), or
    /// 2 + n_banks * (1 + first_event + n_events) (MEP).
    pub n_offsets: usize,
    /// Sizes of payloads in bytes, without sourceID word and padding, as u16. First comes a word
    /// for each event (Allen) or bank (MEP): the place of its sizes, counted in u16 from the start
    /// of this array. Then come the sizes.
    pub sizes: *const u32,
    /// Number of words of `sizes`.
    pub n_sizes: usize,
    /// Bank types as u8, after words as in `sizes`, which count bytes here. Banks of types 66 and
    /// 68 have hits.
    pub types: *const u32,
    /// Number of words of `types`.
    pub n_types: usize,
    /// Versions of banks as u8, laid out like `types`; NULL: all banks have the version `version`.
    pub versions: *const u32,
    /// Number of words of `versions`.
    pub n_versions: usize,
    /// Version of all banks if `versions` is NULL: UT_VERSION_V4, UT_VERSION_V5, or 0 for the
    /// version of the tables. Banks of another version than the tables have no hits, and are
    /// counted. If all banks have another version, the call returns UT_WRONG_VERSION. On the CPU it
    /// also does if `versions` is NULL and the banks have sizes that only the other format has.
    pub version: u32,
    /// Reserved: 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, the size first, and otherwise numbers and raw pointers, which may be null.
unsafe impl SizedStruct for UtBatch {
    const NAME: &'static str = "UtBatch";
}

impl UtBatch {
    /// Checks the pointers as far as possible without following them.
    pub(crate) fn check_arrays(&self) -> Result<(), Failure> {
        Arrays::of(self).map(|_| ())
    }
}

#[derive(Clone, Copy)]
struct Arrays {
    selected: CallerArray<u32>,
    raw: CallerArray<u8>,
    offsets: CallerArray<u32>,
    sizes: CallerArray<u32>,
    types: CallerArray<u32>,
    versions: CallerArray<u32>,
}

impl Arrays {
    fn of(batch: &UtBatch) -> Result<Self, Failure> {
        Ok(Self {
            selected: CallerArray::new("UtBatch.selected", batch.selected, batch.n_selected)?,
            raw: CallerArray::new("UtBatch.raw", batch.raw, batch.raw_bytes)?,
            offsets: CallerArray::new("UtBatch.offsets", batch.offsets, batch.n_offsets)?,
            sizes: CallerArray::new("UtBatch.sizes", batch.sizes, batch.n_sizes)?,
            types: CallerArray::new("UtBatch.types", batch.types, batch.n_types)?,
            versions: CallerArray::new("UtBatch.versions", batch.versions, batch.n_versions)?,
        })
    }

    fn places(self) -> [Place; 6] {
        let Self {
            selected,
            raw,
            offsets,
            sizes,
            types,
            versions,
        } = self;
        [
            selected.place(),
            raw.place(),
            offsets.place(),
            sizes.place(),
            types.place(),
            versions.place(),
        ]
    }
}

/// Checks layout, `only_selected` and `version`, for host and device.
pub(crate) fn fields(batch: &UtBatch) -> Result<(Layout, bool, Option<u8>), Failure> {
    let layout = match batch.layout {
        UT_LAYOUT_ALLEN => Layout::Allen,
        UT_LAYOUT_MEP => Layout::Mep,
        other => {
            return Err(Failure::argument(format!(
                "UtBatch.layout is {other}: it must be 0 (Allen) or 1 (MEP)"
            )));
        }
    };
    let only_selected = flag("UtBatch.only_selected", batch.only_selected)?;
    if !only_selected && batch.n_selected > 0 {
        return Err(Failure::argument(
            "UtBatch.selected lists events, but UtBatch.only_selected is 0",
        ));
    }
    if batch.reserved != 0 {
        return Err(Failure::argument("UtBatch.reserved is not 0"));
    }
    let version = match batch.version {
        0 => None,
        UT_VERSION_V4 | UT_VERSION_V5 => Some(batch.version as u8),
        other => {
            let why = "it must be UT_VERSION_V4 (3), UT_VERSION_V5 (4), or 0 for the version of \
                the tables";
            return Err(Failure::argument(format!(
                "UtBatch.version is {other}: {why}"
            )));
        }
    };
    if version.is_some() && !batch.versions.is_null() {
        return Err(Failure::argument(
            "UtBatch has versions and a version: give one of them",
        ));
    }
    for (name, len) in lengths(batch) {
        let least = match layout {
            _ if batch.n_events == 0 => 0,
            Layout::Allen => u64::from(batch.first_event) + u64::from(batch.n_events),
            // Without banks, there are no rows of sizes and types.
            Layout::Mep => {
                if name == "offsets" {
                    2
                } else {
                    0
                }
            }
        };
        if (len as u64) < least {
            let events = batch.n_events;
            let message = format!(
                "UtBatch.{name} has {len} words, too few for {events} events: {least} at least"
            );
            return Err(Failure::argument(message));
        }
    }
    Ok((layout, only_selected, version))
}

/// Refuses a batch on a device whose banks all have another version than the tables.
pub(crate) fn check_version(version: Option<u8>, table: BankVersion) -> Result<(), Failure> {
    match version {
        Some(version) if version != table.byte() => Err(DecodeError::OtherVersion {
            what: format!("UtBatch.version is {version}"),
            table,
        }
        .into()),
        _ => Ok(()),
    }
}

fn lengths(batch: &UtBatch) -> impl Iterator<Item = (&'static str, usize)> {
    let versions = (!batch.versions.is_null()).then_some(("versions", batch.n_versions));
    [
        ("offsets", batch.n_offsets),
        ("sizes", batch.n_sizes),
        ("types", batch.n_types),
    ]
    .into_iter()
    .chain(versions)
}

/// Reads a batch, and the places of its arrays.
///
/// # Safety
/// - `batch` is null, or a struct as [`read_struct`] reads it. Each of its pointers is null, or can
///   be read for the length in the struct, and nothing writes there, as long as the result is used.
pub(crate) unsafe fn read_batch<'a>(
    batch: *const UtBatch,
) -> Result<(BatchView<'a>, [Place; 6]), Failure> {
    // SAFETY: as the caller says.
    let batch = unsafe { read_struct(batch) }?;
    let (layout, only_selected, version) = fields(&batch)?;
    let arrays = Arrays::of(&batch)?;
    // SAFETY: each array is null or can be read for its length, as the caller says.
    let view = unsafe {
        BatchView {
            layout,
            n_events: batch.n_events as usize,
            first_event: batch.first_event as usize,
            selected: only_selected.then(|| arrays.selected.slice()),
            raw: arrays.raw.slice(),
            offsets: arrays.offsets.slice(),
            sizes: arrays.sizes.slice(),
            types: arrays.types.slice(),
            versions: (!arrays.versions.is_null()).then(|| arrays.versions.slice()),
            version,
            ..BatchView::default()
        }
    };
    // If the rows were missing, the banks would silently have no types.
    let has_banks = layout == Layout::Mep && view.n_events > 0 && view.offsets[0] > 0;
    if has_banks && (view.sizes.is_empty() || view.types.is_empty()) {
        return Err(Failure::argument(
            "UtBatch has banks, but no sizes or no types",
        ));
    }
    Ok((view, arrays.places()))
}
