//! The numbers of the registry that need no key, if the operator has made them public.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use poem::http::StatusCode;
use poem::{Endpoint, Request, Response, Result};

use super::sections::{self, ExampleGene, Leader};
use crate::http::static_file::{JSON, StaticFile};
use crate::registry::{DomainName, RegistryNumbers};

/// Numbers of the registry that need no key.
pub struct PublicNumbers {
    /// The section of the front page, as HTML.
    pub(super) section: Bytes,
    /// The gene of the front page's examples.
    pub(super) example: ExampleGene,
    file: StaticFile,
}

impl PublicNumbers {
    /// `leaders`: the best genes of some domains. `json`: `registry` as JSON.
    pub fn new(
        registry: &RegistryNumbers,
        leaders: &[(DomainName, Vec<Leader>)],
        json: Bytes,
    ) -> Self {
        let section = sections::numbers(registry, leaders);
        Self { section, example: ExampleGene::of(leaders), file: StaticFile::new(JSON, json) }
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
