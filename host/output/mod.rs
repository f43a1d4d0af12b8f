//! TODO(output)
