//! The backend door is enough: a backend of plain loops over the primitives passes the op table.

#[path = "../examples/smallest_backend/backend.rs"]
mod backend;
