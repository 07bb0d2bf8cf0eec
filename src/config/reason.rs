//! Says why a value cannot be used, in the terms of TOML. Never repeats the value, which may be a
//! secret, also one that was given to the wrong key.

use figment::error::Kind;

const ADDRESS: &str = "an address with a port, such as 127.0.0.1:8080";

/// The reason, for a text such as "`key`: `reason`".
pub(super) fn reason(kind: &Kind) -> String {
    match kind {
        Kind::UnknownField(_, known) => {
            format!("unknown key; this section has: {}", known.join(", "))
        }
        Kind::UnknownVariant(_, known) => format!("must be {}", alternatives(known)),
        Kind::MissingField(name) => format!("{name} is missing"),
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            format!("must be {}", in_toml(expected))
        }
        Kind::Message(text) if text.contains("socket address") => format!("must be {ADDRESS}"),
        // Of a file, or of a type that is parsed here or in `registry`: these do not repeat the value.
        Kind::Message(text) => text.clone(),
        _ => "not a usable value".to_owned(),
    }
}

/// `"a", "b" or "c"`.
fn alternatives(values: &[&str]) -> String {
    let quoted: Vec<_> = values.iter().map(|value| format!("\"{value}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// What `serde` expects.
fn in_toml(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "f64" => "a number",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "socket address" => ADDRESS,
        name if name.starts_with("struct ") => "a section with keys",
        _ => "a string",
    }
}
