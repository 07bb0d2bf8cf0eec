//! The issuer's discovery document (OpenID Connect Discovery 1.0, section 4.2), as far as it is used.

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::config::is_confidential_url;

/// The document.
#[derive(Deserialize)]
pub(super) struct Discovery {
    pub(super) issuer: String,
    pub(super) jwks_uri: String,
    // Access tokens are verified without these, whatever they are.
    #[serde(default)]
    authorization_endpoint: Value,
    #[serde(default)]
    token_endpoint: Value,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Value,
}

impl Discovery {
    /// Where browsers log in; `None` if it does not say, or not safely.
    pub(super) fn endpoints(&self) -> Option<LoginEndpoints> {
        let secure = |url: &Value| {
            let url = url.as_str()?.parse::<Url>().ok()?;
            let origin = url.origin().ascii_serialization();
            // The page's policy names the origin, and these would end it there.
            let is_plain = !origin.contains([';', ',']);
            (is_plain && is_confidential_url(&origin)).then_some(url)
        };
        Some(LoginEndpoints {
            authorization: secure(&self.authorization_endpoint)?,
            token: secure(&self.token_endpoint)?,
            sends_issuer: self.authorization_response_iss_parameter_supported == true,
        })
    }
}

/// Where browsers log in at the issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginEndpoints {
    /// The URL of the page to log in.
    pub(crate) authorization: Url,
    /// The URL that exchanges a code for an access token.
    pub(crate) token: Url,
    /// Whether each response names the issuer (RFC 9207).
    pub(crate) sends_issuer: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_are_used_only_if_nobody_can_tamper_with_them() {
        let endpoints = |authorization: &str, token: &str| {
            let discovery = json!({
                "issuer": "https://id.example", "jwks_uri": "https://id.example/keys",
                "authorization_endpoint": authorization, "token_endpoint": token,
            });
            serde_json::from_value::<Discovery>(discovery).expect("a document").endpoints()
        };
        let good = endpoints("https://id.example/auth?a=b", "https://token.example:8443/x?y");
        let origin = good.expect("both").token.origin().ascii_serialization();
        assert_eq!(origin, "https://token.example:8443");
        assert_eq!(endpoints("http://id.example/auth", "https://id.example/token"), None);
        let strange = json!({
            "issuer": "https://id.example", "jwks_uri": "https://id.example/keys", "token_endpoint": 1,
            "authorization_response_iss_parameter_supported": null,
        });
        let strange = serde_json::from_value::<Discovery>(strange).expect("enough for tokens");
        assert_eq!(strange.endpoints(), None);
        assert_eq!(endpoints("https://id.example/auth", "javascript:alert(1)"), None);
        assert_eq!(endpoints("https://id.example/auth", "https://a;script-src/token"), None);
    }
}
