//! Wake-ups. The rings that a call owes are gathered while it holds the table, and rung after.

use windlass_core::bell::Bell;
use windlass_core::store::Wakeup;

use crate::MemoryStore;

impl Wakeup for MemoryStore {
    fn bell(&self) -> &Bell {
        &self.bell
    }
}
