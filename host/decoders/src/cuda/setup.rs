//! Tables and kernels that the launches of every batch share.

use ut_kernels::clustering::ClusterOptions;

use super::tables::TablesOnDevice;
use crate::parameters::Parameters;
use crate::ptx::Unit;
use ut_data::input::Layout;

pub(super) struct LaunchSetup {
    pub(super) tables: TablesOnDevice,
    pub(super) options: ClusterOptions,
    pub(super) flip_origin: f32,
    pub(super) params: Parameters,
    /// A rung of the ladder in place of production, for v5 in Allen layout.
    pub(super) rung: Option<String>,
}

impl LaunchSetup {
    pub(super) fn variant(&self, layout: Layout) -> (Unit, String) {
        if let (Layout::Allen, Some(rung)) = (layout, &self.rung) {
            return (Unit::LADDER, rung.clone());
        }
        let unit = Unit::production(self.tables.host.version, layout);
        (unit, unit.name.to_owned())
    }
}
