//! URLs that contain a password: checks for the usual mistakes, because the client libraries
//! report these differently, or not at all.

/// Checks the percent-encoding of `url`.
///
/// # Errors
/// The reason, without the value, which may be part of a password.
pub fn check_percent_escapes(url: &str) -> Result<(), &'static str> {
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

/// Whether `url` has a user or password before its host.
pub(super) fn has_user(url: &str) -> bool {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_whole_and_there_is_no_fragment() {
        for good in ["redis://h", "redis://:p%40%C3%a4@h/0", "postgres://%2Frun%2Fpg/db?a=%20b"] {
            assert_eq!(check_percent_escapes(good), Ok(()), "{good}");
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
            assert!(check_percent_escapes(bad).is_err_and(|said| said.contains(what)), "{bad}");
        }
    }
}
