//! The `onecron` program.

fn main() {}
