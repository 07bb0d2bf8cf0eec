//! URLs with a password in them: what goes wrong most often there, said before any client
//! library reads them, each in its own way.

/// Whether `url` has only what may stand in one.
///
/// # Errors
/// What is wrong, without the value, for it may be part of a password.
pub fn check_escapes(url: &str) -> Result<(), &'static str> {
    if url.contains('#') {
        return Err("must have no fragment; a # in a password is written as %23");
    }
    let mut escapes = url.split('%').skip(1).map(|rest| rest.as_bytes().get(..2));
    if escapes.any(|digits| !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
    {
        return Err("must have two hexadecimal digits after each %; a % in a password is written \
                    as %25");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_whole_and_there_is_no_fragment() {
        for good in ["redis://h", "redis://:p%40%C3%a4@h/0", "postgres://%2Frun%2Fpg/db?a=%20b"] {
            assert_eq!(check_escapes(good), Ok(()), "{good}");
        }
        for (bad, what) in [
            ("redis://:a#b@h", "fragment"),
            ("redis://h#insecure", "fragment"),
            ("postgres://u:50%@h/db", "hexadecimal"),
            ("postgres://u:%g0@h/db", "hexadecimal"),
            ("postgres://u:%4@h/db", "hexadecimal"),
            ("redis://h/%", "hexadecimal"),
            ("redis://h/%é", "hexadecimal"),
        ] {
            assert!(check_escapes(bad).is_err_and(|said| said.contains(what)), "{bad}");
        }
    }
}
