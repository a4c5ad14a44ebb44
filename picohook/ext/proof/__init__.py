"""Proofs of life: harmful calls that hooks must deny."""
