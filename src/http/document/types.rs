//! Types that only describe values in documents.

use poem_openapi::registry::MetaSchema;

/// A type for the document alone: no value of it is ever made.
macro_rules! documented {
    ($(#[$doc:meta])* $vis:vis $type:ident, $name:literal, $schema:expr) => {
        $(#[$doc])*
        $vis struct $type(serde_json::Value);

        impl poem_openapi::types::Type for $type {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;

            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schema_ref() -> poem_openapi::registry::MetaSchemaRef {
                poem_openapi::registry::MetaSchemaRef::Inline(Box::new($schema))
            }

            fn register(_: &mut poem_openapi::registry::Registry) {}

            fn as_raw_value(&self) -> Option<&Self> {
                Some(self)
            }

            fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self> + 'a> {
                Box::new(std::iter::empty())
            }
        }

        impl poem_openapi::types::ToJSON for $type {
            fn to_json(&self) -> Option<serde_json::Value> {
                Some(self.0.clone())
            }
        }

        impl poem_openapi::types::ParseFromJSON for $type {
            fn parse_from_json(value: Option<serde_json::Value>) -> poem_openapi::types::ParseResult<Self> {
                Ok(Self(value.unwrap_or_default()))
            }
        }
    };
}
pub(crate) use documented;

documented!(
    /// A moment: RFC 3339, UTC, whole seconds.
    pub Time,
    "string_date-time",
    MetaSchema::new_with_format("string", "date-time")
);
