//! A stage of a sequence on the caller's streams, with all memory the caller's: counted, allocated,
//! written.

use cudarc::driver::{result, sys};
use ut_decoding::decoder::cuda::{
    CopyRows, CudaDevice, CudaHost, CudaMemory, CudaSequence, CudaStream, DeviceBatch,
    HITS_OVERFLOW, NO_SUCH_EVENT, STRIPS_OVERFLOW, SequenceHits, SequenceWork,
};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchView, DecodeError, DecodeOptions, DetectorTables, Grouping, Layout};
use ut_kernels::report::N_COUNTS;
use ut_kernels::status::WRONG_VERSION;

use crate::fake_driver::{on_the_fakes, well_on_the_fake};
use crate::interop::{Caller, send};
use crate::suite::allocations::{ALLOCATIONS, Counting};
use crate::suite::backends::decode;
use crate::suite::events::{allen_batch, changed, mep_batch};
use crate::{detector, events, overlapping};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Orders of work: as late as possible, and streams that run ahead.
pub const SEEDS: [[(&str, &str); 1]; 3] = [
    [("FAKE_CUDA_SEED", "0")],
    [("FAKE_CUDA_SEED", "1")],
    [("FAKE_CUDA_SEED", "2")],
];

/// A stage, its device and the stream of both, of a caller's; they are dropped in this order.
struct Staged {
    stream: CudaStream,
    stage: CudaSequence,
    device: CudaDevice,
    _caller: Caller,
    tables: DetectorTables,
}

/// A batch on its way to the device, and all memory of its decoding.
struct InFlight {
    batch: DeviceBatch,
    work: SequenceWork,
    hits: SequenceHits,
    /// Kept: input, scratch, offsets and report, hits.
    memory: Vec<CudaMemory>,
    _host: Vec<CudaHost>,
}

impl Staged {
    fn v5() -> Self {
        Self::new(detector(BankVersion::V5, Grouping::YRows))
    }

    fn new(tables: DetectorTables) -> Self {
        let caller = Caller::new();
        let device = caller.device();
        // SAFETY: the stream was made in the context of the device, and is dropped before the
        // caller.
        let stream = unsafe { device.borrow_stream(caller.stream.cast()) };
        let made = CudaSequence::new(
            caller.device(),
            &stream,
            &tables,
            DecodeOptions::default(),
            Parameters::default(),
        );
        let stage = made.expect("the fake is a GPU");
        for layout in [Layout::Allen, Layout::Mep] {
            stage.prepare(layout).expect("the fake compiles");
        }
        Self {
            stream,
            stage,
            device,
            _caller: caller,
            tables,
        }
    }

    /// Puts the copy and the count on the stream.
    fn count(&mut self, batch: &BatchView<'_>) -> InFlight {
        let (there, input, staged) = send(&self.device, &self.stream, batch);
        let bytes = self.stage.scratch_bytes(&there).expect("a small batch");
        let scratch = self.device.allocate(bytes).expect("room");
        let result = self.device.allocate_host(8).expect("room");
        let work = SequenceWork {
            scratch: (scratch.address(), bytes),
            result: result.start().cast(),
        };
        // SAFETY: the returned value keeps all memory alive until the stream has been waited for,
        // and each piece is as long as it says.
        unsafe { self.stage.count(&self.stream, &there, work) }.expect("it can be launched");
        let memory = vec![input, scratch];
        InFlight {
            batch: there,
            work,
            hits: SequenceHits::default(),
            memory,
            _host: vec![staged, result],
        }
    }

    /// Returns the number of hits and the status, after waiting for the stream.
    fn result(&mut self, flight: &InFlight) -> (usize, u32) {
        self.stream.synchronize().expect("it went well");
        // SAFETY: the stream was waited for; two words of memory that `flight` keeps.
        let words = unsafe { std::slice::from_raw_parts(flight.work.result, 2) };
        (words[0] as usize, words[1])
    }

    /// Allocates arrays for `n` hits back to back, and puts the writing on the stream.
    fn write(&mut self, flight: &mut InFlight, n: usize) {
        let n_events = flight.batch.n_events;
        let (n_offsets, n_report) = (n_events * self.stage.n_groups() + 1, n_events * N_COUNTS);
        let results = self
            .device
            .allocate(4 * (n_offsets + n_report))
            .expect("room");
        // Seven arrays of four bytes per hit.
        let memory = self.device.allocate((28 * n).max(1)).expect("room");
        let (address, results_at) = (memory.address(), results.address());
        flight.hits = SequenceHits {
            arrays: std::array::from_fn(|array| address + (4 * array * n) as u64),
            max_hits: n,
            offsets: (results_at, n_offsets),
            report: Some((results_at + 4 * n_offsets as u64, n_report)),
        };
        flight.memory.extend([memory, results]);
        // SAFETY: `flight` keeps all memory until the stream was waited for; the batch was counted
        // by `count`.
        unsafe {
            self.stage
                .write(&self.stream, &flight.batch, flight.work, &flight.hits)
        }
        .expect("it can be launched");
    }

    /// Writes as many hits as were counted, with this status; their number.
    fn write_all(&mut self, flight: &mut InFlight, status: u32) -> usize {
        let (n, counted) = self.result(flight);
        assert_eq!(counted, status);
        self.write(flight, n);
        n
    }

    fn read(&mut self, at: u64, words: usize) -> Vec<u32> {
        let host = self.device.allocate_host((4 * words).max(1)).expect("room");
        let start = host.start();
        // SAFETY: as many words on either side, kept until the stream was waited for.
        unsafe { self.stream.read(at, start, CopyRows::one(4 * words)) }.expect("it can be copied");
        self.stream.synchronize().expect("it went well");
        // SAFETY: the stream has been waited for, and the memory, which is kept here, has `4 *
        // words` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start, 4 * words) };
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
            .collect()
    }

    /// Compares what was written, without an error, with the reference.
    fn check(&mut self, flight: &InFlight, batch: BatchView<'_>, n: usize) {
        let status = if batch.version == Some(3) {
            WRONG_VERSION
        } else {
            0
        };
        assert_eq!(self.result(flight), (n, status));
        let mut reference = ReferenceDecoder::new(&self.tables, DecodeOptions::default());
        let (expected, report) = decode(&mut reference, &self.tables, batch);
        assert_eq!(n, expected.len());
        let n_offsets = batch.n_events * self.stage.n_groups() + 1;
        assert_eq!(
            self.read(flight.hits.offsets.0, n_offsets),
            expected.offsets()
        );
        let counts = self.read(
            flight.hits.report.expect("wanted").0,
            batch.n_events * N_COUNTS,
        );
        assert_eq!(counts, bytemuck::cast_slice::<_, u32>(&report.events));
        let floats = [
            expected.y_begin(),
            expected.y_end(),
            expected.z_at_y_eq0(),
            expected.x_at_y_eq0(),
            expected.dx_dy(),
            expected.weight(),
        ];
        let all: Vec<u32> = floats
            .into_iter()
            .flatten()
            .map(|x| x.to_bits())
            .chain(expected.id().to_vec())
            .collect();
        // One allocation of exactly the required size.
        assert!(
            self.read(flight.hits.arrays[0], 7 * n) == all,
            "hits differ"
        );
    }
}

/// Counts, allocates and writes all of the batches, as many in flight, and compares each with the
/// reference.
pub fn check_all(tables: &DetectorTables, batches: &[BatchView<'_>]) {
    let mut staged = Staged::new(tables.clone());
    // All batches are in flight at the same time, each with separate memory.
    let mut flying: Vec<_> = batches.iter().map(|batch| staged.count(batch)).collect();
    let counted: Vec<_> = flying
        .iter_mut()
        .map(|flight| staged.write_all(flight, 0))
        .collect();
    for ((flight, &batch), n) in flying.iter().zip(batches).zip(counted) {
        staged.check(flight, batch, n);
    }
}

#[test]
fn a_list_of_events_an_interval_and_one_version_for_all_banks_are_taken() {
    on_the_fakes(&SEEDS[..2], || {
        let version = BankVersion::V5;
        let tables = detector(version, Grouping::YRows);
        let events = events(version, 3, 4);
        for batch in [allen_batch(&events), mep_batch(&events)] {
            let all = batch.view();
            let interval = BatchView {
                first_event: 1,
                n_events: 3,
                ..all
            };
            check_all(
                &tables,
                &[
                    BatchView {
                        selected: Some(&[3, 0, 3]),
                        ..all
                    },
                    BatchView {
                        selected: Some(&[]),
                        ..all
                    },
                    BatchView {
                        selected: Some(&[2]),
                        ..interval
                    },
                    BatchView {
                        versions: None,
                        version: Some(version.byte()),
                        ..interval
                    },
                    // Banks of another version are counted, and have no hits.
                    BatchView {
                        versions: None,
                        version: Some(3),
                        ..all
                    },
                    // Events that the arrays do not have are broken.
                    BatchView {
                        first_event: 3,
                        n_events: 2,
                        ..all
                    },
                    BatchView {
                        first_event: usize::MAX,
                        n_events: 1,
                        ..all
                    },
                ],
            );
        }
    });
}

#[test]
fn nothing_is_allocated_for_the_second_batch() {
    well_on_the_fake(&[], || {
        let mut staged = Staged::v5();
        let batch = mep_batch(&events(BankVersion::V5, 7, 2));
        let view = BatchView {
            selected: Some(&[1, 0]),
            ..batch.view()
        };
        // Memory of everything.
        let mut flight = staged.count(&view);
        let n = staged.write_all(&mut flight, 0);
        let on_device = result::mem_get_info().expect("the fake says it").0;
        let before = ALLOCATIONS.get();
        assert!(before > 0, "allocations are counted");
        let (stage, stream) = (&mut staged.stage, &staged.stream);
        let bytes = stage.scratch_bytes(&flight.batch).expect("a small batch");
        assert_eq!(bytes, flight.work.scratch.1);
        // SAFETY: as in `Staged`, whose memory is used again in the order of the stream.
        unsafe {
            stage
                .count(stream, &flight.batch, flight.work)
                .expect("it can be launched");
            stage
                .write(stream, &flight.batch, flight.work, &flight.hits)
                .expect("it can be launched");
        }
        assert_eq!(ALLOCATIONS.get(), before, "on the host");
        assert_eq!(
            result::mem_get_info().expect("the fake says it").0,
            on_device,
            "on the device"
        );
        staged.check(&flight, view, n);
    });
}

#[test]
fn a_missing_listed_event_is_reported_and_the_others_are_decoded() {
    well_on_the_fake(&[], || {
        let mut staged = Staged::v5();
        let batch = mep_batch(&events(BankVersion::V5, 7, 2));
        let view = BatchView {
            selected: Some(&[2, 1, u32::MAX]),
            ..batch.view()
        };
        let mut flight = staged.count(&view);
        let n = staged.write_all(&mut flight, NO_SUCH_EVENT);
        staged.check(
            &flight,
            BatchView {
                selected: Some(&[1]),
                ..view
            },
            n,
        );
    });
}

#[test]
fn work_enqueued_before_a_device_failure_is_done_when_the_failure_is_reported() {
    well_on_the_fake(&[("FAKE_CUDA_REFUSE", "cuLaunchKernel")], || {
        let Staged {
            stage,
            device,
            stream,
            ..
        } = &mut Staged::v5();
        let (there, _input, _staged) = send(
            device,
            stream,
            &allen_batch(&events(BankVersion::V5, 7, 1)).view(),
        );
        let bytes = stage.scratch_bytes(&there).expect("a small batch");
        let scratch = device.allocate(bytes).expect("room");
        let work = SequenceWork {
            scratch: (scratch.address(), bytes),
            result: std::ptr::null_mut(),
        };
        // SAFETY: memory for the batch and the work space, kept beyond the stream's end.
        let error = unsafe { stage.count(stream, &there, work) }
            .expect_err("no kernel is launched")
            .to_string();
        assert!(error.contains("NOT_SUPPORTED"), "{error}");
        // The status word was to be set to 0.
        // SAFETY: the stream lives.
        let status = unsafe { sys::cuStreamQuery(stream.raw().cast()) };
        assert_eq!(status, sys::CUresult::CUDA_SUCCESS);
    });
}

#[test]
fn tables_with_many_kinds_of_sectors_decode_whole_batches_and_lists() {
    well_on_the_fake(&[], || {
        let tables = changed(BankVersion::V5, |_, geometry| {
            geometry
                .sectors
                .iter_mut()
                .zip(1u16..)
                .for_each(|(sector, more)| sector.dy += 0.001 * f32::from(more));
        });
        let batch = allen_batch(&events(BankVersion::V5, 7, 2));
        check_all(
            &tables,
            &[
                batch.view(),
                BatchView {
                    selected: Some(&[1]),
                    ..batch.view()
                },
            ],
        );
    });
}

#[test]
fn room_for_more_hits_than_32_bits_can_count_is_room_enough() {
    well_on_the_fake(&[], || {
        let mut staged = Staged::v5();
        let batch = allen_batch(&events(BankVersion::V5, 7, 1));
        let mut flight = staged.count(&batch.view());
        let n = staged.write_all(&mut flight, 0);
        let hits = SequenceHits {
            max_hits: 1 << 32,
            ..flight.hits
        };
        // SAFETY: none: there is memory for the hits that were counted alone; no others are
        // written.
        unsafe {
            staged
                .stage
                .write(&staged.stream, &flight.batch, flight.work, &hits)
        }
        .expect("it can be launched");
        staged.check(&flight, batch.view(), n);
    });
}

#[test]
fn memory_that_is_too_small_is_reported_and_not_written() {
    well_on_the_fake(&[], || {
        let mut staged = Staged::v5();
        let batch = allen_batch(&events(BankVersion::V5, 7, 2));
        let Staged {
            stage,
            device,
            stream,
            ..
        } = &mut staged;
        let (there, _input, _staged) = send(device, stream, &batch.view());
        let needed = stage.scratch_bytes(&there).expect("a small batch");
        let (scratch, offsets) = (
            device.allocate(needed).expect("room"),
            device.allocate(4 * 145).expect("room"),
        );
        let work = |bytes| SequenceWork {
            scratch: (scratch.address(), bytes),
            result: std::ptr::null_mut(),
        };
        // SAFETY: the memory has the stated sizes and is kept beyond the call, which is refused.
        let refused = unsafe { stage.count(stream, &there, work(needed - 1)) }
            .expect_err("too little")
            .to_string();
        assert!(refused.contains(&format!("needs {needed}")), "{refused}");
        let offsets_at = offsets.address();
        let one_short = SequenceHits {
            offsets: (offsets_at, 144),
            ..SequenceHits::default()
        };
        let no_report = SequenceHits {
            offsets: (offsets_at, 145),
            report: Some((offsets_at, 29)),
            ..SequenceHits::default()
        };
        for hits in [one_short, no_report, SequenceHits::default()] {
            // SAFETY: memory for the batch and the work space, kept beyond the call; it is refused
            // before the hits are looked at.
            let refused = unsafe { stage.write(stream, &there, work(needed), &hits) }
                .expect_err("too few places");
            assert!(
                matches!(refused, DecodeError::TooManyEvents { events: 2, .. }),
                "{refused}"
            );
        }
        // One hit too few; then enough, without another count.
        let mut flight = staged.count(&batch.view());
        let (n, status) = staged.result(&flight);
        assert_eq!(status, 0);
        staged.write(&mut flight, n - 1);
        assert_eq!(staged.result(&flight), (n, HITS_OVERFLOW));
        staged.write(&mut flight, n);
        staged.check(&flight, batch.view(), n);
        // More strips than bytes.
        let flight = staged.count(&overlapping().view());
        assert_eq!(staged.result(&flight).1, STRIPS_OVERFLOW);
    });
}
