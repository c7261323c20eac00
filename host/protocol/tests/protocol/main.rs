//! The wire: any bytes, any message, and the document that describes both.

mod any_bytes;
mod corpus;
mod document;
mod messages;
