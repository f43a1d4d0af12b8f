//! Tables of a detector. They are made once, never change, and can be shared.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use ut_decoding::{Boards, DetectorTables, Geometry, Grouping};

use crate::memory::{CallerArray, check_place, reference};
use crate::status::{Failure, UtStatus, guarded};

/// Groups of rows in y, 72 per event: group 18 * layer + row.
pub const UT_GROUPS_Y_ROWS: u32 = 0;
/// Groups of sectors of nearly the same x, as Allen had them in 2024: 84 in the real geometry.
pub const UT_GROUPS_UNIQUE_X: u32 = 1;

/// Added to a grouping: boards and geometry need not fit each other, and sizes of banks are not
/// compared with the version.
pub const UT_TRUST_TABLES: u32 = 256;

/// Boards, geometry and grouping of a detector, checked. Immutable: any threads and decoders may
/// share them.
pub struct UtTables {
    pub(crate) tables: Arc<DetectorTables>,
}

/// Reads a grouping, with UT_TRUST_TABLES or without.
fn grouping(grouping: u32) -> Result<(Grouping, bool), Failure> {
    let of = match grouping & !UT_TRUST_TABLES {
        UT_GROUPS_Y_ROWS => Grouping::YRows,
        UT_GROUPS_UNIQUE_X => Grouping::UniqueX,
        other => {
            return Err(Failure::argument(format!(
                "grouping {other}: it must be 0 (y rows) or 1 (unique x)"
            )));
        }
    };
    Ok((of, grouping & UT_TRUST_TABLES != 0))
}

/// Makes tables, and writes their handle to `to`.
///
/// # Safety
/// - `to` can be written.
unsafe fn give(
    to: *mut *mut UtTables,
    boards: Boards,
    geometry: Geometry,
    (groups, trust): (Grouping, bool),
) -> Result<(), Failure> {
    let make = if trust {
        DetectorTables::trusting
    } else {
        DetectorTables::new
    };
    let tables = Arc::new(make(boards, geometry, groups)?);
    // SAFETY: as the caller says.
    unsafe { to.write(Box::into_raw(Box::new(UtTables { tables }))) };
    Ok(())
}

/// Makes tables from boards and geometry files that fit each other. `grouping`: UT_GROUPS_Y_ROWS,
/// UT_GROUPS_UNIQUE_X.
///
/// # Safety
/// - `boards` and `geometry` are NULL or strings ended by 0.
/// - `tables` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_tables_from_files(
    boards: *const c_char,
    geometry: *const c_char,
    grouping: u32,
    tables: *mut *mut UtTables,
) -> UtStatus {
    guarded(|| {
        check_place("tables", tables)?;
        let groups = self::grouping(grouping)?;
        let path = |name: &str, path: *const c_char| {
            if path.is_null() {
                return Err(Failure::argument(format!("{name} is NULL")));
            }
            // SAFETY: not null, so a string, as the caller says.
            let path = unsafe { CStr::from_ptr(path) };
            path.to_str()
                .map_err(|_| Failure::argument(format!("{name}: the file name is not UTF-8")))
        };
        let (boards, geometry) = (path("boards", boards)?, path("geometry", geometry)?);
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe {
            give(
                tables,
                Boards::read(boards)?,
                Geometry::read(geometry)?,
                groups,
            )
        }
    })
}

/// Makes tables from the contents of boards and geometry files, such as Allen's blobs, which may be
/// freed afterwards.
///
/// # Safety
/// - `boards` and `geometry` are each NULL or can be read for their bytes.
/// - `tables` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_tables_from_memory(
    boards: *const u8,
    boards_bytes: usize,
    geometry: *const u8,
    geometry_bytes: usize,
    grouping: u32,
    tables: *mut *mut UtTables,
) -> UtStatus {
    guarded(|| {
        check_place("tables", tables)?;
        let groups = self::grouping(grouping)?;
        let boards = CallerArray::new("boards", boards, boards_bytes)?;
        let geometry = CallerArray::new("geometry", geometry, geometry_bytes)?;
        // SAFETY: each is NULL or can be read for its length, as the caller says.
        let (boards, geometry) = unsafe { (boards.slice(), geometry.slice()) };
        let (boards, geometry) = (
            Boards::parse(boards, "boards")?,
            Geometry::parse(geometry, "geometry")?,
        );
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe { give(tables, boards, geometry, groups) }
    })
}

/// Frees tables. Decoders made with them continue.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_tables_free(tables: *mut UtTables) {
    if !tables.is_null() {
        // SAFETY: it came from `Box::into_raw` in `give`, and is freed once, as the caller says.
        drop(unsafe { Box::from_raw(tables) });
    }
}

/// Returns the number of sector groups of an event; 0 if `tables` is NULL.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_tables_n_groups(tables: *const UtTables) -> usize {
    // SAFETY: as the caller says.
    unsafe { reference("tables", tables) }.map_or(0, |this| this.tables.n_groups())
}

/// Returns the version byte of the boards' banks: 3 (format v4) or 4 (format v5); 0 if `tables` is
/// NULL.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_tables_bank_version(tables: *const UtTables) -> u32 {
    // SAFETY: as the caller says.
    unsafe { reference("tables", tables) }
        .map_or(0, |this| u32::from(this.tables.boards().version.byte()))
}
