//! Allocations of decoding.

use std::ffi::CString;
use std::path::Path;
use std::ptr::{null, null_mut};

use ut_decoding::input::{Events, to_allen};
use ut_decoding_c::{
    UT_GROUPS_Y_ROWS, UT_HIT_BYTES, UT_LAYOUT_ALLEN, UT_OK, UtBatch, UtHits, ut_decoder_count, ut_decoder_decode,
    ut_decoder_free, ut_decoder_new, ut_hits_in, ut_tables_free, ut_tables_from_files, ut_tables_n_groups,
};

use allocations::{ALLOCATIONS, Counting};

#[path = "../../tests/suite/allocations.rs"]
mod allocations;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/v5").join(name).display().to_string()
}

#[test]
fn a_thread_that_decodes_alone_allocates_nothing_after_the_first_batch() {
    let events = to_allen(Events::new([fixture("events.mdf")]).next_batch(256).unwrap().unwrap().0).unwrap();
    // SAFETY: numbers and pointers, which may be null.
    let (mut batch, mut hits): (UtBatch, UtHits) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    (batch.size, batch.layout) = (size_of::<UtBatch>(), UT_LAYOUT_ALLEN);
    batch.n_events = events.n_events as u32;
    (batch.raw, batch.raw_bytes) = (events.raw.as_ptr(), events.raw.len());
    (batch.offsets, batch.n_offsets) = (events.offsets.as_ptr(), events.offsets.len());
    (batch.sizes, batch.n_sizes) = (events.sizes.as_ptr(), events.sizes.len());
    (batch.types, batch.n_types) = (events.types.as_ptr(), events.types.len());
    let [boards, geometry] = ["boards.bin", "geometry.bin"].map(|name| CString::new(fixture(name)).unwrap());
    let (mut tables, mut decoder) = (null_mut(), null_mut());
    // SAFETY: names that end with 0, places of ours, and tables that live until the end.
    let n_groups = unsafe {
        let read = ut_tables_from_files(boards.as_ptr(), geometry.as_ptr(), UT_GROUPS_Y_ROWS, &raw mut tables);
        assert_eq!(read, UT_OK);
        assert_eq!(ut_decoder_new(tables, null(), &raw mut decoder), UT_OK);
        ut_tables_n_groups(tables)
    };
    let most = events.view().max_hits();
    let (mut memory, mut offsets) = (vec![0_u32; UT_HIT_BYTES / 4 * most], vec![0; events.n_events * n_groups + 1]);
    hits.size = size_of::<UtHits>();
    (hits.offsets, hits.n_offsets) = (offsets.as_mut_ptr(), offsets.len());
    // SAFETY: memory of so many bytes, and a struct whose size is set.
    let laid_out = unsafe { ut_hits_in(memory.as_mut_ptr().cast(), 4 * memory.len(), most, &raw mut hits) };
    assert_eq!(laid_out, UT_OK);
    let mut before = None;
    for _ in 0..2 {
        // SAFETY: structs whose sizes are set, with arrays of ours that are as long as they say, and used by nothing else.
        unsafe {
            assert_eq!(ut_decoder_count(decoder, &raw const batch, &raw mut hits), UT_OK);
            assert_eq!(ut_decoder_decode(decoder, &raw const batch, &raw mut hits), UT_OK);
        }
        assert!(hits.n_hits > 0);
        let counted = ALLOCATIONS.get();
        assert!(counted > 0, "allocations are counted");
        assert_eq!(*before.get_or_insert(counted), counted);
    }
    // SAFETY: made above, and not used any more.
    unsafe {
        ut_decoder_free(decoder);
        ut_tables_free(tables);
    }
}
