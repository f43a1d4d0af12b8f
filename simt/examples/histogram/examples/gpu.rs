//! Runs the kernel on the first GPU: `cargo run --example gpu -- histogram.ptx` counts the bytes of
//! the PTX itself.

use std::error::Error;
use std::ffi::{CString, c_void};

use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut, result};
use histogram_kernel::{BINS, shared_bytes};
use simt::{Global, GlobalMut};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: gpu FILE.ptx")?;
    let text = std::fs::read(&file)?;
    let counts = count(&text, &CString::new(text.clone())?)?;
    for (value, count) in (0..=u8::MAX).zip(counts).filter(|(_, count)| *count > 0) {
        println!("{:>4} {count}", value.escape_ascii().to_string());
    }
    Ok(())
}

fn count(values: &[u8], ptx: &CString) -> Result<Vec<u32>, Box<dyn Error>> {
    // SAFETY: the symbol lookup of a driver library that is installed; without one
    // `CudaContext::new` would panic.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        return Err("no CUDA driver".into());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    // SAFETY: the PTX is a text with its end, and the context is current.
    let module = unsafe { result::module::load_data(ptx.as_ptr().cast()) }?;
    // SAFETY: the module is loaded.
    let function = unsafe { result::module::get_function(module, c"histogram".to_owned()) }?;

    let values = stream.clone_htod(values)?;
    let mut counts = stream.clone_htod(&[0u32; BINS as usize])?;
    {
        let (from, _from) = values.device_ptr(&stream);
        let (to, _to) = counts.device_ptr_mut(&stream);
        // SAFETY:
        // - Both are memory of this device, of as many elements, and live until the launch is done:
        //   `synchronize` waits.
        // - Nothing else touches them: the stream does one thing after the other.
        let (mut from, mut to) = unsafe {
            let from = Global::<u8>::new(from as usize as *const u8, values.len() as u32);
            (from, GlobalMut::<u32>::new(to as usize as *mut u32, BINS))
        };
        let mut arguments = [(&raw mut from).cast::<c_void>(), (&raw mut to).cast()];
        // SAFETY:
        // - The arguments have the types and the order of the entry point's parameters.
        // - The block has full warps, and as much shared memory as the kernel uses.
        unsafe {
            let (grid, block) = ((64, 1, 1), (256, 1, 1));
            result::launch_kernel(
                function,
                grid,
                block,
                shared_bytes(),
                stream.cu_stream(),
                &mut arguments,
            )?;
        }
    }
    let counts = stream.clone_dtoh(&counts)?;
    stream.synchronize()?;
    // SAFETY: the launch is done, and the function is not used again.
    unsafe { result::module::unload(module) }?;
    Ok(counts)
}
