//! Places for the arrays of the tables: the host's memory as it is, or a device's, in one order for both.

use bytemuck::NoUninit;
use simt::{Global, Plain};

/// Gives each array of the tables a place, in the order in which a view lists them.
pub trait Placer<'t, 'v> {
    /// The view of the next array in its place.
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'v, T>;
}

/// Leaves the arrays where they are, in the host's memory.
#[derive(Debug)]
pub struct InPlace;

impl<'t> Placer<'t, 't> for InPlace {
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'t, T> {
        Global::from_slice(array)
    }
}
