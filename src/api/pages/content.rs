//! The inputs of the pages.

use std::sync::Arc;

use super::numbers::SharedNumbers;
use crate::api::document::Document;
use crate::config::PagesConfig;
use crate::http::trusted_proxies::TrustedProxies;
use crate::ops::{CheckDependencies, Health};

/// The inputs of the pages.
pub struct Pages {
    /// The document that they describe.
    pub document: Document,
    /// The address of the service, if it is configured.
    pub public_url: Option<String>,
    /// Whether the document names the address that a client used that came without a proxy.
    pub documents_own_address: bool,
    /// The proxies that may report the address otherwise.
    pub trusted_proxies: TrustedProxies,
    /// Readiness, for the front page.
    pub health: Arc<Health>,
    /// State of the dependencies, for the front page.
    pub dependencies: CheckDependencies,
    /// What the operator has configured.
    pub config: PagesConfig,
    /// The address of the control listener, if it is configured.
    pub control_url: Option<String>,
    /// The numbers that are public.
    pub numbers: SharedNumbers,
}
