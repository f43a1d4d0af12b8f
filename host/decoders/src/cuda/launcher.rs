//! Launches kernels on a device, for the pipelines that `ut_kernels` writes once for every
//! launcher.

use simt::{
    Argument as KernelArgument, ArgumentVisitor, Arguments, Global, GlobalMut, Kernel, Launcher,
    Plain, Shape,
};
use ut_kernels::allen::pipeline::{AllenLauncher, StripBuffers};

use super::buffer::{Buffer, Place};
use super::device::{Argument, MAX_ARGUMENTS};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use crate::ptx::{self, Unit};
use ut_data::DecodeError;

pub(super) struct DeviceLauncher<'a> {
    device: &'a mut CudaDevice,
    stream: &'a CudaStream,
    unit: Unit,
    variant: &'a str,
    /// Variant of the counting kernel, which exists for 8 and for 16 size classes.
    count_variant: &'a str,
}

pub(super) struct DeviceView<T: 'static>(GlobalMut<'static, T>);

impl<T: Plain> DeviceView<T> {
    /// `len` elements at `address`, for kernels.
    ///
    /// # Safety
    /// - The address is a multiple of the alignment of `T`. Kernels dereference it: the launch
    ///   requires `len` elements there until the stream is done, with no other use of the memory
    ///   meanwhile.
    pub(super) unsafe fn at(address: u64, len: usize) -> Self {
        // SAFETY: the host never follows the address; what kernels need is the caller's care.
        Self(unsafe { GlobalMut::new(address as usize as *mut T, len as u32) })
    }
}

impl Buffer {
    pub(super) fn device_view<T: Plain>(&self, Place { at, len }: Place) -> DeviceView<T> {
        DeviceView(self.view_mut(at, len))
    }
}

impl<'a> DeviceLauncher<'a> {
    /// # Safety
    /// Until the stream has done everything that is launched, for every launch:
    /// - The views in its arguments point to memory of this device that is at least as long as they
    ///   say.
    /// - The launch has the shape that the section "Launch" of the kernel's module requires.
    pub(super) unsafe fn new(
        device: &'a mut CudaDevice,
        stream: &'a CudaStream,
        unit: Unit,
        variant: &'a str,
        count_variant: &'a str,
    ) -> Self {
        Self {
            device,
            stream,
            unit,
            variant,
            count_variant,
        }
    }
}

struct List<'a> {
    arguments: [Argument<'a>; MAX_ARGUMENTS],
    len: usize,
}

impl<'a> ArgumentVisitor<'a> for List<'a> {
    fn visit<T: KernelArgument>(&mut self, argument: &'a T) {
        self.arguments[self.len] = Argument::of(argument);
        self.len += 1;
    }
}

impl Launcher for DeviceLauncher<'_> {
    type Error = DecodeError;
    type Buffer<T: Plain> = DeviceView<T>;

    fn read<'a, T: Plain>(&mut self, buffer: &'a DeviceView<T>) -> Global<'a, T> {
        // SAFETY: a view of device memory of this length. A pipeline takes a buffer mutably to
        // write it in a launch.
        unsafe { Global::new(buffer.0.as_ptr(), buffer.0.len()) }
    }

    fn write<'a, T: Plain>(&mut self, buffer: &'a mut DeviceView<T>) -> GlobalMut<'a, T> {
        buffer.0
    }

    fn zero<T: Plain>(&mut self, buffer: &mut DeviceView<T>) -> Result<(), DecodeError> {
        const { assert!(size_of::<T>().is_multiple_of(4)) };
        let (address, words) = (
            buffer.0.as_ptr().addr() as u64,
            buffer.0.len() as usize * (size_of::<T>() / 4),
        );
        // SAFETY: a view of device memory: aligned, and there until the stream is done
        // (`DeviceLauncher::new`).
        unsafe { self.stream.zero(address, words) }
    }

    fn launch<K: Kernel>(
        &mut self,
        _: K,
        shape: Shape,
        arguments: K::Arguments<'_>,
    ) -> Result<(), DecodeError> {
        let kernel = const { ptx::Kernel::of::<K>() };
        let variant = if kernel == ptx::Kernel::CountHits {
            self.count_variant
        } else {
            self.variant
        };
        let mut list = List {
            arguments: [Argument::of(&()); MAX_ARGUMENTS],
            len: 0,
        };
        arguments.each(&mut list);
        let List { arguments, len } = list;
        // SAFETY:
        // - They are the arguments of the entry: entry points are made of the same types
        //   (`ut_kernels::entries`).
        // - Views and shape keep what a launch asks for until the stream is done:
        //   `DeviceLauncher::new` requires it.
        unsafe {
            self.device.launch(
                self.stream,
                self.unit,
                kernel,
                variant,
                shape,
                &arguments[..len],
            )
        }
    }
}

impl AllenLauncher for DeviceLauncher<'_> {
    /// Does nothing: the decoder has reserved the room, and the status says if it was too little.
    fn reserve_strips(
        &mut self,
        _: &Self::Buffer<u32>,
        _: &mut StripBuffers<Self>,
    ) -> Result<(), DecodeError> {
        Ok(())
    }
}
