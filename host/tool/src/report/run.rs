//! What the sections of the page are about.

use super::sums::Sums;
use ut_report::{Rules, Verdicts};

/// A run, with what was found in it.
pub struct Run<'a> {
    pub name: String,
    pub gathered: &'a Sums,
    pub verdicts: &'a Verdicts,
    pub rules: &'a Rules,
}
