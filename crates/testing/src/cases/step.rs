//! Rows of optimiser steps.

use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![]
}
