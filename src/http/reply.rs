//! Responses of operations, typed for the document: `B` makes the response, `T` describes it.

use std::marker::PhantomData;

use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::registry::{MetaResponse, MetaResponses, Registry};
use poem_openapi::types::Type;

/// The response of an operation.
pub(crate) struct Reply<B, T>(B, PhantomData<T>);

impl<B, T> Reply<B, T> {
    /// A reply whose response is made from `body`.
    pub(crate) const fn new(body: B) -> Self {
        Self(body, PhantomData)
    }
}

/// A kind of replies, which describes the operations whose successful body is `T`.
pub(crate) trait ReplyKind<T>: IntoResponse {
    /// The type of the body of errors.
    type Error: Type;

    /// Every response of the operation.
    fn responses() -> Vec<MetaResponse>;
}

impl<B: ReplyKind<T>, T: Send> IntoResponse for Reply<B, T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl<B: ReplyKind<T>, T: Type> ApiResponse for Reply<B, T> {
    fn meta() -> MetaResponses {
        MetaResponses { responses: B::responses() }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        B::Error::register(registry);
    }
}
