//! Runs the code sample of the document with the given number, or the program of docs/clients.md with the
//! given name.

use std::error::Error;

macro_rules! sample {
    ($name:ident, $file:literal) => {
        mod $name {
            include!(concat!("../../../../../target/sdk/samples/", $file));

            pub fn run() -> Result<(), Box<dyn std::error::Error>> {
                main()
            }
        }
    };
}

sample!(search, "0.rs");
sample!(phenotype, "1.rs");
sample!(insights, "2.rs");
sample!(limits, "limits.rs");

fn main() -> Result<(), Box<dyn Error>> {
    rustls::crypto::ring::default_provider().install_default().expect("no other provider");
    match std::env::args().nth(1).as_deref() {
        Some("0") => search::run(),
        Some("1") => phenotype::run(),
        Some("limits") => limits::run(),
        _ => insights::run(),
    }
}
