"""Who looks on while hooks are asked: audit log and traces."""
