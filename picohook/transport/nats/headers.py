"""The headers of questions and answers over NATS."""

ID = "Picohook-Id"
"""Session, turn, call, stage, a checksum of the params, hook and try. All but the try name the question, when it is asked again
too, and no other question."""
DEADLINE = "Picohook-Deadline-Ms"
"""The milliseconds that are left for the answer. It is no time of day, because clocks differ."""
DIGEST = "Picohook-Digest"
"""The SHA-256 of the question's body. An answer repeats it."""
TRACE_PARENT = "traceparent"

STATUS = "Status"
"""The server's own status of a message, such as 503 for a question without a receiver."""
