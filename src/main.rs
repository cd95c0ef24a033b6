//! The `onecron` program.

fn main() {
    if std::env::args().nth(1).as_deref() == Some("guardian") {
        std::process::exit(onecron::executor::guardian::serve());
    }
}
