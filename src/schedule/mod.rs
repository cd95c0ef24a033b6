//! When is a job due? Pure.

use chrono::DateTime;
use chrono::Utc;
/// x
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule;
impl Schedule {
    /// x
    pub fn after(&self, _after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        None
    }
}
