//! Places for the arrays of the tables, in the host's memory or a device's, in one order for both.

use bytemuck::NoUninit;
use simt::{Global, Plain};

/// Places the arrays of the tables, in the order in which a view lists them.
pub trait Placer<'t, 'v> {
    /// Reserves room for the next array, and returns its view.
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'v, T>;
}

/// Leaves the arrays in the host's memory.
#[derive(Debug)]
pub struct InPlace;

impl<'t> Placer<'t, 't> for InPlace {
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'t, T> {
        Global::from_slice(array)
    }
}
