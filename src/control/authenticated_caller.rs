//! The security scheme of the key operations. [`super::listener`] authenticates callers.

use std::sync::Arc;

use poem::{Request, Result};
use poem_openapi::registry::MetaSecurityScheme;

use super::error::ControlApiError;
use super::identity::Caller;
use crate::http::security::{SecurityScheme, scheme};

/// The caller whom the listener has authenticated.
pub(super) struct AuthenticatedCaller(Arc<Caller>);

impl AuthenticatedCaller {
    pub(super) fn caller(&self) -> &Caller {
        &self.0
    }

    pub(super) fn user(&self) -> &str {
        &self.0.user
    }

    /// The owner of the keys that a request may use; `None` for everybody's.
    pub(super) fn owner(&self, all: bool) -> Result<Option<&str>, ControlApiError> {
        match (all, self.0.operator) {
            (false, _) => Ok(Some(&self.0.user)),
            (true, true) => Ok(None),
            (true, false) => Err(ControlApiError::NotAnOperator),
        }
    }
}

impl SecurityScheme for AuthenticatedCaller {
    const NAME: &'static str = "Bearer";

    fn meta() -> MetaSecurityScheme {
        let description = "An access token of the issuer, or a login token; see `GET /login`.";
        MetaSecurityScheme { scheme: Some("bearer"), ..scheme("http", description) }
    }

    fn of(request: &Request) -> Result<Self> {
        let caller = request.data::<Arc<Caller>>().cloned();
        Ok(caller.map(Self).ok_or(ControlApiError::Internal)?)
    }
}
