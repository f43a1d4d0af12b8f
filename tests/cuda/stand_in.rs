//! The stand-in for the driver itself: it is as late as a GPU may be, and notices what a GPU would
//! notice only sometimes.

use cudarc::driver::result;
use ut_decoding::decoder::cuda::{
    Argument, CopyRows, CudaDevice, CudaHost, CudaMemory, CudaStream,
};
use ut_decoding::decoder::plan::Shape;
use ut_decoding::decoder::ptx::{Kernel, Unit};

use crate::fake_driver::{complaints, on_the_fake, well_on_the_fake};
use crate::says;

fn gpu() -> CudaDevice {
    CudaDevice::new(0, 0).expect("the fake is a GPU")
}

fn host(device: &CudaDevice, bytes: [u8; 8]) -> CudaHost {
    let host = device.allocate_host(8).unwrap();
    fill(&host, bytes);
    host
}

fn fill(host: &CudaHost, bytes: [u8; 8]) {
    // SAFETY: eight bytes of pinned memory; copies of it in flight are what the tests are about.
    unsafe { host.start().cast::<[u8; 8]>().write(bytes) };
}

fn look_at(host: &CudaHost) -> [u8; 8] {
    // SAFETY: as for `fill`.
    unsafe { host.start().cast::<[u8; 8]>().read() }
}

#[test]
fn copies_are_complete_only_after_waiting_for_them() {
    well_on_the_fake(&[], || {
        let device = gpu();
        let (stream, memory) = (device.stream().unwrap(), device.allocate(8).unwrap());
        let (from, to) = (host(&device, [1; 8]), host(&device, [0; 8]));
        let address = memory.address();
        // SAFETY: all live until the stream was waited for.
        unsafe {
            stream.write(address, from.start(), 8).unwrap();
            stream.read(address, to.start(), CopyRows::one(8)).unwrap();
        }
        assert_eq!(look_at(&to), [0; 8], "too early");
        // Too early, too: the copy reads its source only when it is carried out.
        fill(&from, [2; 8]);
        stream.synchronize().unwrap();
        assert_eq!(look_at(&to), [2; 8]);
    });
}

fn copy_in(
    stream: &CudaStream,
    to: &CudaMemory,
    from: *const u8,
) -> Result<(), ut_decoding::DecodeError> {
    // SAFETY: broken on purpose by those who call this, which the fake notices.
    unsafe { stream.write(to.address(), from, 8) }
}

/// Gives back the context that the process holds once, whatever is left in it.
fn end_context() {
    let device = result::device::get(0).unwrap();
    // SAFETY: a device that opened its primary context holds it still, by what the test forgot;
    // nothing uses it any more.
    unsafe { result::primary_ctx::release(device) }.unwrap();
}

fn eight(device: &CudaDevice) -> (CudaMemory, CudaHost) {
    (device.allocate(8).unwrap(), host(device, [1; 8]))
}

/// Names the one of [`BROKEN`] that a child process does.
const CASE: &str = "UT_DECODE_TEST_CASE";

/// Misuse of the driver, and the words of the fake's complaint; nothing else is there to suffer.
type Broken = (&'static str, fn(CudaDevice, CudaStream));

const BROKEN: [Broken; 6] = [
    ("memory that was given back", |device, stream| {
        let (memory, host) = eight(&device);
        copy_in(&stream, &memory, host.start()).unwrap();
        drop(memory);
        assert!(stream.synchronize().is_err());
    }),
    ("given back meanwhile", |device, stream| {
        let (memory, host) = eight(&device);
        copy_in(&stream, &memory, host.start()).unwrap();
        drop(host);
        assert!(stream.synchronize().is_err());
    }),
    ("outside of global memory", |device, stream| {
        let (memory, host) = eight(&device);
        let beyond = memory.address() + 1;
        // SAFETY: broken on purpose, as said above.
        unsafe { stream.read(beyond, host.start(), CopyRows::one(8)) }.unwrap();
        says(stream.synchronize(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    }),
    ("not pinned", |device, stream| {
        let (memory, _) = eight(&device);
        assert!(copy_in(&stream, &memory, [1u8; 8].as_ptr()).is_err());
    }),
    ("used in the context of device", |device, _| {
        let (memory, host) = eight(&device);
        let theirs = CudaDevice::new(1, 0).unwrap().stream().unwrap();
        device.begin().unwrap();
        assert!(copy_in(&theirs, &memory, host.start()).is_err());
    }),
    ("ends with 1 allocations", |device, stream| {
        // The memory keeps the context, which is never given back by itself then.
        std::mem::forget(device.allocate(8).unwrap());
        drop((stream, device));
        end_context();
    }),
];

#[test]
fn errors_that_a_gpu_shows_only_rarely_are_always_reported() {
    for (number, (what, _)) in BROKEN.iter().enumerate() {
        let output = on_the_fake(
            &[(CASE, &number.to_string()), ("FAKE_CUDA_DEVICES", "2")],
            &|| {
                let asked: usize = std::env::var(CASE)
                    .expect("a number")
                    .parse()
                    .expect("a number");
                let device = gpu();
                let stream = device.stream().unwrap();
                BROKEN[asked].1(device, stream);
            },
        );
        let Some(output) = output else { return };
        let found = complaints(&output);
        assert!(
            found.iter().any(|line| line.contains(what)),
            "{what:?} is not in {found:?}"
        );
    }
}

#[test]
fn arguments_that_are_not_the_kernels_are_refused_before_it_is_launched() {
    well_on_the_fake(&[], || {
        let mut device = gpu();
        let stream = device.stream().unwrap();
        let (unit, shape) = (
            Unit::PRODUCTION[0],
            Shape {
                grid: 1,
                block: (32, 1),
                shared_bytes: 128,
            },
        );
        for arguments in [&[][..], &[Argument::of(&1u32)], &[Argument::of(&1u64); 3]] {
            let kernel = Kernel::PrefixSumOffsets;
            // SAFETY: broken on purpose: it is refused.
            let refused =
                unsafe { device.launch(&stream, unit, kernel, unit.name, shape, arguments) };
            says(refused, "takes parameters of [4, 16, 16] bytes");
        }
    });
}
