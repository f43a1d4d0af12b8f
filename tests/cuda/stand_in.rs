//! The stand-in for the driver itself: it is as late as a GPU may be, and notices what a GPU would notice only
//! sometimes.

use std::ptr::null_mut;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};
use ut_decoding::decoder::cuda::{Argument, CudaDevice, CudaHost, CudaMemory, CudaStream, Device, Rows, choose};
use ut_decoding::decoder::plan::Shape;
use ut_decoding::decoder::ptx::{Kernel, Unit};

use crate::fake_driver::{complaints, on_the_fake, well_on_the_fake};

/// Runs `body` on the fake, which must complain of `what`.
fn complains(name: &str, settings: &[(&str, &str)], what: &str, body: impl Fn()) {
    if let Some(output) = on_the_fake(name, settings, body) {
        let found = complaints(&output);
        assert!(found.iter().any(|line| line.contains(what)), "{what:?} is not in {found:?}");
    }
}

fn gpu() -> CudaDevice {
    CudaDevice::new(0, 0).expect("the fake is a GPU")
}

fn host(device: &mut CudaDevice, bytes: [u8; 8]) -> CudaHost {
    let host = device.allocate_host(8).unwrap();
    fill(&host, bytes);
    host
}

fn fill(host: &CudaHost, bytes: [u8; 8]) {
    // SAFETY: eight bytes of pinned memory; copies of it in flight are what the tests are about.
    unsafe { CudaDevice::start(host).cast::<[u8; 8]>().write(bytes) };
}

fn look_at(host: &CudaHost) -> [u8; 8] {
    // SAFETY: as for `fill`.
    unsafe { CudaDevice::start(host).cast::<[u8; 8]>().read() }
}

#[test]
fn it_cannot_be_mistaken_for_a_gpu() {
    well_on_the_fake("stand_in::it_cannot_be_mistaken_for_a_gpu", &[], || {
        let gpu = choose(0).expect("the fake is a GPU");
        assert!(gpu.name.starts_with("fake GPU") && gpu.name.contains("no GPU"), "{gpu:?}");
    });
}

#[test]
fn copies_are_done_when_they_are_waited_for_and_not_before() {
    well_on_the_fake("stand_in::copies_are_done_when_they_are_waited_for_and_not_before", &[], || {
        let mut device = gpu();
        let (stream, memory) = (device.stream().unwrap(), device.allocate(8).unwrap());
        let (from, to) = (host(&mut device, [1; 8]), host(&mut device, [0; 8]));
        let address = CudaDevice::address(&memory);
        // SAFETY: all live until the stream was waited for.
        unsafe {
            device.write(&stream, address, CudaDevice::start(&from), 8).unwrap();
            device.read(&stream, address, CudaDevice::start(&to), Rows::one(8)).unwrap();
        }
        assert_eq!(look_at(&to), [0; 8], "too early");
        // Too early, too: the copy takes what is there when it is done.
        fill(&from, [2; 8]);
        device.synchronize(&stream).unwrap();
        assert_eq!(look_at(&to), [2; 8]);
    });
}

#[test]
fn streams_are_ordered_by_events_alone() {
    well_on_the_fake("stand_in::streams_are_ordered_by_events_alone", &[], || {
        let mut device = gpu();
        let (one, two, memory) = (device.stream().unwrap(), device.stream().unwrap(), device.allocate(8).unwrap());
        let (from, to) = (host(&mut device, [1; 8]), host(&mut device, [0; 8]));
        let address = CudaDevice::address(&memory);
        for wait in [false, true] {
            // SAFETY: all live until both streams were waited for.
            unsafe { device.write(&one, address, CudaDevice::start(&from), 8) }.unwrap();
            let written = device.record(&one).unwrap();
            if wait {
                device.wait(&two, &written).unwrap();
            }
            // SAFETY: all live until both streams were waited for.
            unsafe { device.read(&two, address, CudaDevice::start(&to), Rows::one(8)) }.unwrap();
            device.synchronize(&two).unwrap();
            assert_eq!(look_at(&to) == [1; 8], wait);
            device.synchronize(&one).unwrap();
        }
    });
}

#[test]
fn what_a_gpu_would_notice_only_sometimes_is_noticed() {
    // Each is broken on purpose: the fake notices, and nothing else is there to suffer.
    type Action = fn(&mut CudaDevice, &CudaStream, CudaMemory, CudaHost);
    let name = "stand_in::what_a_gpu_would_notice_only_sometimes_is_noticed";
    let cases: [(&str, &str, Action); 5] = [
        ("0", "memory that was given back", |device, stream, memory, host| {
            copy_in(device, stream, &memory, CudaDevice::start(&host)).unwrap();
            drop(memory);
            assert!(device.synchronize(stream).is_err());
        }),
        ("1", "given back meanwhile", |device, stream, memory, host| {
            copy_in(device, stream, &memory, CudaDevice::start(&host)).unwrap();
            drop(host);
            assert!(device.synchronize(stream).is_err());
        }),
        ("2", "outside of global memory", |device, stream, memory, host| {
            let beyond = CudaDevice::address(&memory) + 1;
            // SAFETY: broken on purpose, as said above.
            unsafe { device.read(stream, beyond, CudaDevice::start(&host), Rows::one(8)) }.unwrap();
            let error = device.synchronize(stream).unwrap_err().to_string();
            assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
        }),
        ("3", "not pinned", |device, stream, memory, _| {
            assert!(copy_in(device, stream, &memory, [1u8; 8].as_ptr()).is_err());
        }),
        ("4", "used in the context of device", |device, _, memory, host| {
            let theirs = CudaDevice::new(1, 0).unwrap().stream().unwrap();
            device.begin().unwrap();
            assert!(copy_in(device, &theirs, &memory, CudaDevice::start(&host)).is_err());
        }),
    ];
    for (number, what, _) in cases {
        complains(name, &[("UT_DECODE_TEST_CASE", number), ("FAKE_CUDA_DEVICES", "2")], what, || {
            let asked = std::env::var("UT_DECODE_TEST_CASE").unwrap_or_default();
            let (_, _, action) = cases.iter().find(|(number, ..)| *number == asked).expect("one of them");
            let mut device = gpu();
            let (stream, memory) = (device.stream().unwrap(), device.allocate(8).unwrap());
            let pinned = host(&mut device, [1; 8]);
            action(&mut device, &stream, memory, pinned);
        });
    }
}

#[test]
fn what_is_left_when_a_context_ends_is_noticed() {
    complains("stand_in::what_is_left_when_a_context_ends_is_noticed", &[], "ends with 1 allocations", || {
        let mut device = gpu();
        // The memory keeps the context, which is never given back by itself then.
        std::mem::forget(device.allocate(8).unwrap());
        drop(device);
        end_context();
    });
}

/// Puts a copy of eight bytes on the stream.
fn copy_in(
    device: &mut CudaDevice,
    stream: &CudaStream,
    to: &CudaMemory,
    from: *const u8,
) -> Result<(), ut_decoding::DecodeError> {
    // SAFETY: broken on purpose by those who call this, which the fake notices.
    unsafe { device.write(stream, CudaDevice::address(to), from, 8) }
}

#[test]
fn arguments_that_are_not_the_kernels_are_refused_before_it_is_launched() {
    well_on_the_fake("stand_in::arguments_that_are_not_the_kernels_are_refused_before_it_is_launched", &[], || {
        let mut device = gpu();
        let stream = device.stream().unwrap();
        let (unit, shape) = (Unit::PRODUCTION[0], Shape { grid: 1, block: (32, 1), shared_bytes: 128 });
        for arguments in [&[][..], &[Argument::of(&1u32)], &[Argument::of(&1u64); 3]] {
            let kernel = Kernel::PrefixSumOffsets;
            // SAFETY: broken on purpose: it is refused.
            let refused = unsafe { device.launch(&stream, unit, kernel, unit.name, shape, arguments) };
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("takes parameters of [4, 16, 16] bytes"), "{error}");
        }
    });
}

/// Gives back the context that the process holds once, whatever is left in it.
fn end_context() {
    let device = result::device::get(0).unwrap();
    // SAFETY: a device that opened its primary context holds it still, by what the test forgot; nothing uses it any
    // more.
    unsafe { result::primary_ctx::release(device) }.unwrap();
}

/// A graph of what was captured.
struct Graph(sys::CUgraph, sys::CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `end_capture`, and given back only here.
        unsafe { sys::cuGraphExecDestroy(self.1).result().and(sys::cuGraphDestroy(self.0).result()) }.unwrap();
    }
}

impl Graph {
    fn launch(&self, stream: &CudaStream) {
        // SAFETY: the tests keep what the captured calls use until they have waited for the stream.
        unsafe { sys::cuGraphLaunch(self.1, stream.raw().cast()) }.result().unwrap();
    }
}

fn begin_capture(stream: &CudaStream) {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream lives.
    unsafe { sys::cuStreamBeginCapture_v2(stream.raw().cast(), mode) }.result().unwrap();
}

fn end_capture(stream: &CudaStream) -> Result<Graph, CUresult> {
    let (mut graph, mut executable) = (null_mut(), null_mut());
    // SAFETY: the stream lives; places of ours.
    unsafe {
        sys::cuStreamEndCapture(stream.raw().cast(), &raw mut graph).result().map_err(|error| error.0)?;
        sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result().map_err(|error| error.0)?;
    }
    Ok(Graph(graph, executable))
}

#[test]
fn a_graph_does_nothing_while_it_is_made_and_everything_each_time_it_is_launched() {
    let name = "stand_in::a_graph_does_nothing_while_it_is_made_and_everything_each_time_it_is_launched";
    well_on_the_fake(name, &[], || {
        let mut device = gpu();
        let (stream, memory) = (device.stream().unwrap(), device.allocate(8).unwrap());
        let (from, to) = (host(&mut device, [1; 8]), host(&mut device, [0; 8]));
        let address = CudaDevice::address(&memory);
        begin_capture(&stream);
        // SAFETY: all live until the stream was waited for.
        unsafe {
            device.write(&stream, address, CudaDevice::start(&from), 8).unwrap();
            device.read(&stream, address, CudaDevice::start(&to), Rows::one(8)).unwrap();
        }
        let graph = end_capture(&stream).expect("a graph");
        device.synchronize(&stream).unwrap();
        assert_eq!(look_at(&to), [0; 8], "nothing was launched");
        for value in [2, 3] {
            fill(&from, [value; 8]);
            graph.launch(&stream);
            device.synchronize(&stream).unwrap();
            assert_eq!(look_at(&to), [value; 8]);
        }
    });
}

#[test]
fn what_a_capture_forbids_is_noticed_and_there_is_no_graph() {
    type Action = fn(&mut CudaDevice, &CudaStream) -> bool;
    let name = "stand_in::what_a_capture_forbids_is_noticed_and_there_is_no_graph";
    let cases: [(&str, &str, Action); 4] = [
        ("0", "memory is allocated while a graph is made", |device, _| device.allocate(8).is_err()),
        ("1", "memory is pinned while a graph is made", |device, _| device.allocate_host(8).is_err()),
        ("2", "is waited for", |device, stream| device.synchronize(stream).is_err()),
        ("3", "a graph of events", |device, stream| device.record(stream).is_err()),
    ];
    for (number, what, _) in cases {
        complains(name, &[("UT_DECODE_TEST_CASE", number)], what, || {
            let asked = std::env::var("UT_DECODE_TEST_CASE").unwrap_or_default();
            let (_, _, action) = cases.iter().find(|(number, ..)| *number == asked).expect("one of them");
            let mut device = gpu();
            let stream = device.stream().unwrap();
            begin_capture(&stream);
            assert!(action(&mut device, &stream));
            let error = end_capture(&stream).err().expect("no graph");
            assert_eq!(error, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        });
    }
}

#[test]
fn what_others_do_while_a_graph_is_made_does_not_matter() {
    well_on_the_fake("stand_in::what_others_do_while_a_graph_is_made_does_not_matter", &[], || {
        let mut device = gpu();
        let stream = device.stream().unwrap();
        begin_capture(&stream);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(gpu().allocate(8).unwrap()));
        });
        assert!(end_capture(&stream).is_ok());
    });
}

#[test]
fn a_graph_that_is_left_when_a_context_ends_is_noticed() {
    complains(
        "stand_in::a_graph_that_is_left_when_a_context_ends_is_noticed",
        &[],
        "ends with 1 executable graphs",
        || {
            let mut device = gpu();
            let stream = device.stream().unwrap();
            begin_capture(&stream);
            let graph = end_capture(&stream).expect("a graph");
            std::mem::forget((graph, stream));
            drop(device);
            end_context();
        },
    );
}
