//! The numbers of the registry that need no key, if the operator has made them public.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use poem::http::StatusCode;
use poem::{Endpoint, Request, Response, Result};
use serde::Deserialize;

use crate::http::static_file::{JSON, StaticFile};
use crate::registry::{Count, DomainName, RegistryNumbers};

/// Numbers of the registry that need no key.
pub struct PublicNumbers {
    pub(super) genes: Count,
    pub(super) domains: Count,
    /// The best genes of some domains.
    pub(super) leaders: Vec<(DomainName, Vec<Leader>)>,
    file: StaticFile,
}

/// One of the best genes of a domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Leader {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) fitness_score: f64,
}

impl PublicNumbers {
    /// `json`: `registry` as JSON.
    pub fn new(
        registry: &RegistryNumbers,
        leaders: Vec<(DomainName, Vec<Leader>)>,
        json: Bytes,
    ) -> Self {
        let (genes, domains) = (registry.genes, registry.total_domains);
        Self { genes, domains, leaders, file: StaticFile::new(JSON, json) }
    }
}

/// The numbers that were read last; none if they are not public. Cheap to clone.
#[derive(Clone, Default)]
pub struct SharedNumbers(Arc<RwLock<Option<Arc<PublicNumbers>>>>);

impl SharedNumbers {
    /// Replaces the numbers.
    pub fn set(&self, numbers: Option<PublicNumbers>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = numbers.map(Arc::new);
    }

    pub(super) fn get(&self) -> Option<Arc<PublicNumbers>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves the numbers as JSON; 204 if they are not public, or not known yet.
impl Endpoint for SharedNumbers {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        Ok(match self.get() {
            Some(numbers) => numbers.file.response(request.headers()),
            None => Response::builder().status(StatusCode::NO_CONTENT).finish(),
        })
    }
}
