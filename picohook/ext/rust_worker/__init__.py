"""The Rust worker: a program that is started for each call."""
