//! `[pages]`: what the web pages show to people without a key.

use serde::Deserialize;

use super::checks::Checks;
use super::secret_url::has_user;
use crate::registry::DomainName;

/// Maximum number of `pages.domains`.
const MAX_DOMAINS: usize = 10;

/// Maximum length of `pages.key_help`, in characters.
const MAX_HELP: usize = 1_000;

/// What the web pages show to people without a key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PagesConfig {
    /// Whether the numbers of genes and domains, the names of the domains, and the leaders of `domains` are
    /// public.
    pub public_numbers: bool,
    /// The domains whose leaders the front page shows; without one, the largest.
    pub domains: Vec<String>,
    /// How to get a key, for people.
    pub key_help: Option<String>,
    /// A page where people get a key.
    pub key_url: Option<String>,
}

impl PagesConfig {
    /// Checks the section.
    pub(super) fn check(&self, checks: &mut Checks) {
        let (key, domains) = ("pages.domains", &self.domains);
        let problem = format!("must be {MAX_DOMAINS} or fewer");
        checks.require(domains.len() <= MAX_DOMAINS, &[key], &problem);
        let is_valid = domains.iter().all(|domain| domain.parse::<DomainName>().is_ok());
        checks.require(
            is_valid,
            &[key],
            "each must have 1 to 255 characters, none a control character",
        );
        let length = self.key_help.as_ref().map_or(1, |text| text.trim().chars().count());
        let problem = format!("must have 1 to {MAX_HELP} characters");
        checks.require((1..=MAX_HELP).contains(&length), &["pages.key_help"], &problem);
        let url = self.key_url.as_deref();
        let is_web = |url: &str| {
            let parsed = url.parse::<url::Url>();
            parsed.is_ok_and(|parsed| matches!(parsed.scheme(), "http" | "https")) && !has_user(url)
        };
        let problem = "must be an http:// or https:// URL without user";
        checks.require(url.is_none_or(is_web), &["pages.key_url"], problem);
    }
}
