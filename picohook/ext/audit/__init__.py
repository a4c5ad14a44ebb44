"""The audit log: questions to hooks and their answers, in a file in which every later change can be detected."""
