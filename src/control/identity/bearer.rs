//! Reads the token from the header `Authorization` (RFC 6750).

use poem::http::{HeaderMap, header};

use super::error::CredentialError;

/// Longest token.
const MAX_BYTES: usize = 8 * 1024;

/// The token; exactly one must be sent.
pub(crate) fn token(headers: &HeaderMap) -> Result<&str, CredentialError> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let value = sent.next().ok_or(CredentialError::Missing)?;
    if sent.next().is_some() {
        return Err(CredentialError::NotBearer);
    }
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .ok_or(CredentialError::NotBearer)?;
    let token = token.trim_start();
    let is_token = scheme.eq_ignore_ascii_case("bearer")
        && (1..=MAX_BYTES).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
    is_token.then_some(token).ok_or(CredentialError::NotBearer)
}

#[cfg(test)]
mod tests {
    use poem::http::HeaderValue;

    use super::*;

    fn of(values: &[&str]) -> Result<String, CredentialError> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            headers.append(header::AUTHORIZATION, value);
        }
        token(&headers).map(str::to_owned)
    }

    #[test]
    fn exactly_one_well_formed_token_is_accepted() {
        assert_eq!(of(&["Bearer a.b-c_d~e+f/g="]).as_deref(), Ok("a.b-c_d~e+f/g="));
        assert_eq!(of(&["bEARER  x"]).as_deref(), Ok("x"));
        assert_eq!(of(&[]), Err(CredentialError::Missing));
        let long = format!("Bearer {}", "x".repeat(MAX_BYTES + 1));
        for malformed in
            [&["Bearer"][..], &["Bearer "], &["Basic x"], &["Bearer x y"], &["Bearer ü"], &[&long]]
        {
            assert_eq!(of(malformed), Err(CredentialError::NotBearer), "{malformed:?}");
        }
        assert_eq!(of(&["Bearer x", "Bearer x"]), Err(CredentialError::NotBearer));
    }
}
