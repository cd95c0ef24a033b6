//! The command line: the only place that prints.

pub mod next;
pub mod table_args;
pub mod validate;
