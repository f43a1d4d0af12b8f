//! TODO(synth)
