"""What hooks are asked about and what they decide: payloads, stages, decisions, settings. Data, and no I/O."""
