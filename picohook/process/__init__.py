"""Child processes: what to run (`plan`), one of them (`child`), and one hook's succession of them (`supervisor`)."""
