"""Proofs of life: harmful calls that hooks must deny."""

from ...extension import Extension, Keyword, Lazy

extension = Extension(
    name="proof",
    tables={"proof_of_life": Lazy("picohook.ext.proof.prover:ProofOfLife")},
    keywords={"proof_of_life": Keyword(Lazy("picohook.ext.proof.prover:given"))},
)
