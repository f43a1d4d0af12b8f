//! Kernels as types, and what launches them: a pipeline's launches are written once, for hardware,
//! executor and tests.
//!
//! ```
//! use simt::{Block, Global, GlobalMut, Kernel, Launcher, Shape};
//!
//! #[derive(Clone, Copy)]
//! struct Double;
//!
//! impl Kernel for Double {
//!     const NAME: &'static str = "double";
//!     type Arguments<'a> = (Global<'a, u32>, GlobalMut<'a, u32>);
//!
//!     fn run<B: Block>(self, block: &B, &(from, to): &Self::Arguments<'_>) {
//!         let i = block.block_idx_x() * block.threads() + block.thread();
//!         if i < from.len() {
//!             block.store(to, i, 2 * block.load(from, i));
//!         }
//!     }
//! }
//!
//! /// Four times what `numbers` holds.
//! fn quadruple<L: Launcher>(launcher: &mut L, numbers: &mut L::Buffer<u32>, work: &mut L::Buffer<u32>) -> Result<(), L::Error> {
//!     let shape = Shape { grid: 1, block: (64, 1), shared_bytes: 0 };
//!     let arguments = (launcher.read(numbers), launcher.write(work));
//!     launcher.launch(Double, shape, arguments)?;
//!     let arguments = (launcher.read(work), launcher.write(numbers));
//!     launcher.launch(Double, shape, arguments)
//! }
//! ```

use crate::block::Block;
use crate::memory::{Global, GlobalMut, Plain};

/// A kernel: name, arguments, body. The value holds what is fixed when an entry point is compiled.
pub trait Kernel: Copy {
    /// Name of the entry points, or its beginning.
    const NAME: &'static str;

    /// Arguments of a launch, in the order of the entry point's parameters: a tuple.
    type Arguments<'a>: Arguments;

    /// Does the work of one thread. Must be `#[inline(always)]`.
    fn run<B: Block>(self, block: &B, arguments: &Self::Arguments<'_>);
}

/// Parameter of an entry point, which crosses to the device as its bytes.
///
/// # Safety
/// - `repr(C)`, `repr(transparent)` or a primitive: host and device lay it out alike.
/// - It consists of numbers and views, no references and no pointers of the host's.
pub unsafe trait Argument: Copy {}

macro_rules! argument_numbers {
    ($($t:ty)*) => {$(
        // SAFETY: a primitive number.
        unsafe impl Argument for $t {}
    )*};
}
argument_numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

// SAFETY: a view, `repr(C)`.
unsafe impl<T: Plain> Argument for Global<'_, T> {}
// SAFETY: a view, `repr(C)`.
unsafe impl<T: Plain> Argument for GlobalMut<'_, T> {}

/// Visitor of a launch's arguments.
pub trait ArgumentVisitor<'a> {
    /// Takes the next argument.
    fn visit<T: Argument>(&mut self, argument: &'a T);
}

/// Arguments of a kernel: a tuple of at most eight.
pub trait Arguments: Copy {
    /// Passes the arguments to `visitor`, in order.
    fn each<'a>(&'a self, visitor: &mut impl ArgumentVisitor<'a>);
}

macro_rules! argument_tuples {
    ($(($($name:ident)+))*) => {$(
        impl<$($name: Argument),+> Arguments for ($($name,)+) {
            #[allow(non_snake_case)]
            fn each<'a>(&'a self, visitor: &mut impl ArgumentVisitor<'a>) {
                let ($($name,)+) = self;
                $(visitor.visit($name);)+
            }
        }
    )*};
}
argument_tuples!((A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H));

/// Grid, block and shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: u32,
    /// Threads of a block, x and y.
    pub block: (u32, u32),
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// Runs kernels, one after the other, and owns the memory between them.
pub trait Launcher {
    /// Error of a launch.
    type Error;

    /// Memory that one kernel writes and a later one reads.
    type Buffer<T: Plain>;

    /// Passes a buffer to the next launch, to read.
    fn read<'a, T: Plain>(&mut self, buffer: &'a Self::Buffer<T>) -> Global<'a, T>;

    /// Passes a buffer to the next launch, to write.
    fn write<'a, T: Plain>(&mut self, buffer: &'a mut Self::Buffer<T>) -> GlobalMut<'a, T>;

    /// Sets all bytes of a buffer to 0, after the launches so far. Elements have a multiple of four
    /// bytes.
    fn zero<T: Plain>(&mut self, buffer: &mut Self::Buffer<T>) -> Result<(), Self::Error>;

    /// Launches a kernel after the earlier ones. It may still run when this returns.
    fn launch<K: Kernel>(
        &mut self,
        kernel: K,
        shape: Shape,
        arguments: K::Arguments<'_>,
    ) -> Result<(), Self::Error>;
}
